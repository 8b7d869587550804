import { connectRedis } from '@yardmaster/conversation';

const asked = new Map<string, Promise<Record<string, string>>>();

/** What INFO says, by name; asked once. */
export function redisInfo(url: string): Promise<Record<string, string>> {
  let answer = asked.get(url);
  if (answer === undefined) asked.set(url, (answer = ask(url)));
  return answer;
}

async function ask(url: string): Promise<Record<string, string>> {
  const redis = connectRedis({ url });
  try {
    const text = await redis.info();
    return Object.fromEntries(
      text.split('\r\n').flatMap((line) => {
        const colon = line.indexOf(':');
        return colon > 0 ? [[line.slice(0, colon), line.slice(colon + 1)]] : [];
      }),
    );
  } finally {
    redis.disconnect();
  }
}
