/** What tests read of the API's answers. */
export interface RunView {
  id: string;
  state: string;
  conversation_id: string;
  output?: string;
  reason?: string;
  error?: { code: string; message: string };
  steps: number;
}

export interface StoredEvent {
  id: number;
  type: string;
  at: string;
  data: Record<string, unknown>;
}
