import type { Tool } from '@yardmaster/executor-kit';
import { refusal, shown } from '../refusal.js';
import type { FileServices } from '../services.js';
import { expect, holdFile, once, putContent } from '../storage/change.js';
import { hasLoneSurrogate } from '../text/surrogates.js';
import { fileTool } from './definition.js';

interface WriteArguments {
  path: string;
  content: string;
  expected_sha256?: string;
}

/** `file_write`: the whole content, old or new for whoever looks. */
export const fileWrite = (services: FileServices): Tool =>
  fileTool<WriteArguments>('file_write', (args, context) =>
    once(services, context, async () => {
      const { path, expected_sha256: expected } = args;
      if (hasLoneSurrogate(args.content))
        throw refusal(
          'invalid_input',
          'content holds half of a surrogate pair, which no UTF-8 file can: send the whole character.',
        );
      const { bytes, hash } = await services.content.run('encode', { text: args.content }, context);
      const { writeBytes, readBytes } = services.limits;
      if (bytes.length > writeBytes)
        throw refusal('too_large', `The content has ${bytes.length} bytes; ${writeBytes} is the limit.`, {
          bytes: bytes.length,
          limit: writeBytes,
        });
      // Whoever expects a file does not want folders to be made for it.
      const options = { create: expected === undefined, maxBytes: Math.max(writeBytes, readBytes), room: bytes.length };
      return holdFile(services, context, path, options, async (file) => {
        expect(file, expected);
        const before = file.content?.hash;
        if (before === hash)
          return {
            output: `${shown(path)} has this content already (${bytes.length} bytes).`,
            verdict: { status: 'already_applied', already_applied: true, sha256: hash, bytes: bytes.length },
          };
        return putContent(
          services,
          context,
          file,
          { bytes, hash },
          {
            output: `${before === undefined ? 'Created' : 'Wrote'} ${shown(path)} (${bytes.length} bytes).`,
            verdict: {
              status: before === undefined ? 'created' : 'written',
              sha256_before: before ?? null,
              sha256: hash,
              bytes: bytes.length,
            },
          },
        );
      });
    }),
  );
