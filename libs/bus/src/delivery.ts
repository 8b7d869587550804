/** What the server says about one delivery, in the subject that acknowledges it. */
export interface Delivery {
  stream: string;
  consumer: string;
  /** 1 for the first delivery. */
  deliveryCount: number;
  /** The message's place in the stream. */
  streamSequence: number;
  /** The delivery's place among all of the consumer's deliveries; grows with redeliveries too. */
  deliverySequence: number;
  /** Messages that the consumer had not delivered yet. */
  pending: number;
}

/**
 * Reads both forms of an ack subject, `$JS.ACK.<stream>.<consumer>.<delivered>.<stream seq>.<consumer seq>.<time>.<pending>`
 * and the one with `<domain>.<account hash>` before the stream (and possibly a random token at the end).
 */
export function parseDelivery(subject: string): Delivery | undefined {
  const tokens = subject.split('.');
  if (tokens[0] !== '$JS' || tokens[1] !== 'ACK') return undefined;
  const at = tokens.length === 9 ? 2 : tokens.length >= 11 ? 4 : -1;
  if (at < 0) return undefined;
  const [deliveryCount, streamSequence, deliverySequence] = [2, 3, 4].map((i) => Number(tokens[at + i])) as [
    number,
    number,
    number,
  ];
  const pending = Number(tokens[at + 6]);
  if (![deliveryCount, streamSequence, deliverySequence, pending].every(Number.isSafeInteger)) return undefined;
  return { stream: tokens[at]!, consumer: tokens[at + 1]!, deliveryCount, streamSequence, deliverySequence, pending };
}
