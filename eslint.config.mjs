import nx from '@nx/eslint-plugin';
import tseslint from 'typescript-eslint';

const boundaries = (extraForSpecs) => [
  'error',
  {
    allow: [],
    depConstraints: [
      {
        sourceTag: 'type:service',
        onlyDependOnLibsWithTags: ['type:infra', 'type:core', 'type:contract', ...extraForSpecs],
      },
      { sourceTag: 'type:infra', onlyDependOnLibsWithTags: ['type:infra', 'type:contract', ...extraForSpecs] },
      {
        sourceTag: 'type:core',
        onlyDependOnLibsWithTags: ['type:core', 'type:contract'],
        bannedExternalImports: ['@nestjs/*', '@nats-io/*', 'ioredis', 'undici'],
      },
      {
        sourceTag: 'type:contract',
        onlyDependOnLibsWithTags: [],
        allowedExternalImports: ['@bufbuild/protobuf', ...(extraForSpecs.length ? ['vitest', 'fast-check'] : [])],
      },
      { sourceTag: 'type:testkit', onlyDependOnLibsWithTags: ['type:infra', 'type:contract'] },
      { sourceTag: 'scope:shared', onlyDependOnLibsWithTags: ['scope:shared'] },
      ...['api', 'dispatcher', 'router', 'registry', 'executor-shell', 'executor-files', 'fleet', 'yard'].map(
        (scope) => ({
          sourceTag: `scope:${scope}`,
          onlyDependOnLibsWithTags: [`scope:${scope}`, 'scope:shared'],
        }),
      ),
    ],
  },
];

export default tseslint.config(
  { ignores: ['**/dist/**', '**/node_modules/**', 'libs/contracts/src/gen/**', '.nx/**', '**/grammars/**'] },
  {
    files: ['libs/*/src/**/*.ts', 'services/*/src/**/*.ts'],
    extends: [tseslint.configs.recommended],
    plugins: { '@nx': nx },
    languageOptions: { parserOptions: { project: './tsconfig.check.json', tsconfigRootDir: import.meta.dirname } },
    rules: {
      '@nx/enforce-module-boundaries': boundaries([]),
      '@typescript-eslint/no-floating-promises': 'error',
      '@typescript-eslint/switch-exhaustiveness-check': ['error', { considerDefaultExhaustiveForUnions: true }],
      '@typescript-eslint/consistent-type-imports': [
        'error',
        { fixStyle: 'inline-type-imports', disallowTypeAnnotations: false },
      ],
      '@typescript-eslint/no-unused-vars': [
        'error',
        { argsIgnorePattern: '^_', varsIgnorePattern: '^_', caughtErrors: 'none' },
      ],
      'no-restricted-imports': 'off',
    },
  },
  {
    files: ['services/*/src/**/*.ts'],
    rules: {
      // Emitted constructor metadata needs injected classes as values; the rule cannot see that for every decorator.
      '@typescript-eslint/consistent-type-imports': 'off',
    },
  },
  {
    files: ['**/*.spec.ts'],
    rules: { '@nx/enforce-module-boundaries': boundaries(['type:testkit']) },
  },
  {
    files: ['libs/{tool-calls,tool-render,tool-schema,llm-wire,text-edit}/src/**/*.ts'],
    ignores: ['**/*.spec.ts'],
    rules: {
      'no-restricted-imports': [
        'error',
        {
          paths: ['net', 'child_process', 'fs', 'http', 'https', 'dgram', 'tls']
            .flatMap((name) => [name, `node:${name}`])
            .concat('node:fs/promises', 'fs/promises')
            .map((name) => ({ name, message: 'The pure libs do no I/O (docs/adr).' })),
        },
      ],
    },
  },
);
