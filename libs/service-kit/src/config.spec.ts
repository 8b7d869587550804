import { IsInt, IsOptional, IsString, Matches, Max, Min } from 'class-validator';
import { expect, it } from 'vitest';
import { ConfigError, FromEnv, loadConfig } from './config.js';

class Base {
  @FromEnv('T_PORT')
  @IsInt({ message: 'it must be a port number' })
  @Min(0)
  @Max(65535)
  port: number = 80;
}
class Config extends Base {
  @FromEnv('T_NAME')
  @IsString()
  name!: string;
  @FromEnv('T_ON')
  on: boolean = false;
  @FromEnv('T_TOKEN', { secret: true })
  @IsOptional()
  @Matches(/^tok_/)
  token: string | undefined = undefined;
  @FromEnv('T_PARENT', { type: Number })
  @IsOptional()
  @IsInt()
  parent: number | undefined = undefined;
}

const mistakesOf = (env: NodeJS.ProcessEnv) => {
  try {
    loadConfig(Config, env);
    return [];
  } catch (error) {
    return (error as ConfigError).mistakes;
  }
};

it('reads texts as the declared types, over the defaults', () => {
  const config = loadConfig(Config, { T_PORT: '8080', T_NAME: 'n', T_ON: 'yes', T_PARENT: '7' });
  expect(config).toMatchObject({ port: 8080, name: 'n', on: true, parent: 7 });
  expect(loadConfig(Config, { T_NAME: 'n' })).toMatchObject({ port: 80, on: false });
});

it('names every variable that is wrong, with its rule', () => {
  expect(mistakesOf({ T_PORT: 'http' })).toEqual([
    'T_NAME: it must be a string (not set)',
    'T_PORT: it must be a port number',
  ]);
});

it('never shows the value of a variable, least of all a secret', () => {
  const mistakes = mistakesOf({ T_NAME: 'n', T_TOKEN: 'hunter2', T_PORT: '99999hunter2' });
  expect(mistakes.map((line) => line.split(':')[0])).toEqual(['T_PORT', 'T_TOKEN']);
  expect(mistakes.join()).not.toContain('hunter2');
});
