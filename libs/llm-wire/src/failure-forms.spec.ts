import { describe, expect, it } from 'vitest';
import { classifyFailure, type FailureClass } from './index.js';

// Forms in which providers and servers report failures, beyond the case files; a list of classes where several are right.
const R = 'retry';
const K = 'rotate_key_then_retry';
const O = 'context_overflow';
const M = 'next_model';
const X = 'model_output';
const P = 'next_provider';
const json = JSON.stringify;
const openai = (message: string, code?: string | null, type?: string | null): string =>
  json({ error: { message, type, param: null, code } });
const ctx = "This model's maximum context length is 8192 tokens. However, you requested 9000 tokens";

type Right = FailureClass | FailureClass[];
/** Provider, status, body, class, and the wait in milliseconds where it matters. */
const BY_PROVIDER: [string, number, string, Right, number?][] = [
  // openai
  [
    'openai',
    429,
    openai(
      'Rate limit reached for gpt-x in organization org-x on requests per day (RPD): Limit 200, Used 200, Requested 1. Please try again in 7m12s.',
      'rate_limit_exceeded',
      'requests',
    ),
    P,
  ],
  [
    'openai',
    429,
    openai(
      'Rate limit reached for requests per min (RPM): Limit 3, Used 3. Please try again in 20s. Visit https://platform.openai.com/account/billing to add a payment method.',
      'rate_limit_exceeded',
      'requests',
    ),
    K,
    20000,
  ],
  [
    'openai',
    429,
    openai('You exceeded your current quota, please check your plan and billing details.', null, null),
    P,
  ],
  [
    'openai',
    429,
    openai(
      'Request too large for gpt-4 in organization org on tokens per min (TPM): Limit 10000, Requested 14137. The input or output tokens must be reduced in order to run successfully.',
      'rate_limit_exceeded',
      'tokens',
    ),
    K,
  ],
  [
    'openai',
    400,
    openai(
      'max_tokens is too large: 100000. This model supports at most 16384 completion tokens, whereas you provided 100000.',
      'invalid_value',
      'invalid_request_error',
    ),
    [P, M],
  ],
  [
    'openai',
    400,
    openai(
      "This model's maximum context length is 8192 tokens, however you requested 9000 tokens (1000 in your prompt; 8000 for the completion). Please reduce your prompt; or completion length.",
      null,
      'invalid_request_error',
    ),
    O,
  ],
  [
    'openai',
    403,
    openai('Project `proj_x` does not have access to model `gpt-x`', 'model_not_found', 'invalid_request_error'),
    M,
  ],
  [
    'openai',
    404,
    openai('The model `gpt-4-32k` has been deprecated, learn more here', 'model_not_found', 'invalid_request_error'),
    M,
  ],
  [
    'openai',
    404,
    openai('This is a chat model and not supported in the v1/completions endpoint.', '', 'invalid_request_error'),
    M,
  ],
  ['openai', 429, openai('The engine is currently overloaded, please try again later', null, 'server_error'), K],
  ['openai', 503, openai('The server is overloaded or not ready yet.', null, 'server_error'), R],
  ['openai', 400, openai('Invalid value: tool_calls', 'invalid_value', 'invalid_request_error'), P],
  ['openai', 409, openai('conflict', 'x', 'invalid_request_error'), P],
  [
    'openai',
    401,
    openai('You must be a member of an organization to use the API', 'invalid_organization', 'invalid_request_error'),
    P,
  ],
  [
    'openai',
    429,
    openai(
      'Your account is not active, please check your billing details on our website.',
      'billing_not_active',
      'billing_not_active',
    ),
    P,
  ],
  [
    'openai',
    400,
    openai('Billing hard limit has been reached', 'billing_hard_limit_reached', 'invalid_request_error'),
    P,
  ],
  [
    'openai',
    200,
    json({ error: { message: 'The server had an error processing your request', type: 'server_error', code: null } }),
    R,
  ],
  ['openai', 200, json({ id: 'r', status: 'failed', error: { code: 'server_error', message: 'boom' } }), R],
  [
    'openai',
    200,
    json({
      id: 'r',
      status: 'failed',
      error: { code: 'context_length_exceeded', message: 'Your input exceeds the context window' },
    }),
    O,
  ],
  ['openai', 200, json({ id: 'r', status: 'failed', error: { code: 'invalid_prompt', message: 'Invalid prompt' } }), P],
  [
    'openai',
    400,
    openai(
      "Invalid 'input': string too long. Expected a string with maximum length 10485760, but got a string with length 12000000 instead.",
      'string_above_max_length',
      'invalid_request_error',
    ),
    [P, O],
  ],
  // azure
  [
    'azure',
    400,
    json({
      error: {
        code: 'content_filter',
        message: "The response was filtered due to the prompt triggering Azure OpenAI's content management policy.",
        status: 400,
      },
    }),
    P,
  ],
  [
    'azure',
    404,
    json({ error: { code: 'DeploymentNotFound', message: 'The API deployment for this resource does not exist.' } }),
    M,
  ],
  [
    'azure',
    429,
    json({
      error: {
        code: 'RateLimitReached',
        message:
          'Your requests to gpt-4 for gpt-4 in East US have exceeded token rate limit of your current pricing tier. Please retry after 86400 seconds.',
      },
    }),
    K,
    30000,
  ],
  [
    'azure',
    400,
    json({
      error: {
        code: 'OperationNotSupported',
        message: 'The chatCompletion operation does not work with the specified model, x.',
      },
    }),
    [M, P],
  ],
  ['azure', 400, json({ error: { code: 'unknown_model', message: 'Unknown model: gpt-zz' } }), M],
  ['azure', 403, json({ error: { code: '403', message: 'Access denied due to Virtual Network/Firewall rules.' } }), P],
  // anthropic
  [
    'anthropic',
    429,
    json({
      type: 'error',
      error: {
        type: 'rate_limit_error',
        message:
          "This request would exceed your organization's rate limit of 50,000 input tokens per minute. For details, refer to: https://docs.anthropic.com; see the response headers for current usage. Please reduce the prompt length or the maximum tokens requested, or try again later.",
      },
    }),
    K,
  ],
  [
    'anthropic',
    400,
    json({
      type: 'error',
      error: {
        type: 'invalid_request_error',
        message: 'You have reached your specified API usage limits. You will regain access on 2026-01-01 at 00:00 UTC.',
      },
    }),
    P,
  ],
  [
    'anthropic',
    400,
    json({
      type: 'error',
      error: {
        type: 'invalid_request_error',
        message:
          'input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000, decrease input length or `max_tokens` and try again',
      },
    }),
    O,
  ],
  [
    'anthropic',
    400,
    json({
      type: 'error',
      error: {
        type: 'invalid_request_error',
        message: 'max_tokens: 64000 > 8192, which is the maximum allowed number of output tokens for claude-x',
      },
    }),
    [P, M],
  ],
  [
    'anthropic',
    413,
    json({ type: 'error', error: { type: 'request_too_large', message: 'Request exceeds the maximum size' } }),
    P,
  ],
  [
    'anthropic',
    403,
    json({
      type: 'error',
      error: {
        type: 'permission_error',
        message: 'Your API key does not have permission to use the specified resource',
      },
    }),
    P,
  ],
  ['anthropic', 504, json({ type: 'error', error: { type: 'timeout_error', message: 'Request timed out' } }), R],
  ['anthropic', 200, json({ type: 'error', error: { type: 'overloaded_error', message: 'Overloaded' } }), R],
  ['anthropic', 200, json({ type: 'error', error: { type: 'rate_limit_error', message: 'Rate limited' } }), K],
  ['anthropic', 200, json({ type: 'error', error: { type: 'api_error', message: 'Internal server error' } }), R],
  ['anthropic', 200, json({ type: 'error', error: { type: 'invalid_request_error', message: 'messages: bad' } }), P],
  [
    'anthropic',
    400,
    json({
      type: 'error',
      error: {
        type: 'invalid_request_error',
        message: 'messages.1: `tool_use` ids were found without `tool_result` blocks immediately after: toolu_1.',
      },
    }),
    P,
  ],
  ['anthropic', 404, json({ type: 'error', error: { type: 'not_found_error', message: 'Not found' } }), P],
  ['anthropic', 402, json({ type: 'error', error: { type: 'billing_error', message: 'x' } }), P],
  [
    'anthropic',
    400,
    json({
      type: 'error',
      error: {
        type: 'invalid_request_error',
        message:
          'This model does not support assistant message prefill. The conversation must end with a user message.',
      },
    }),
    [P, M],
  ],
  [
    'anthropic',
    400,
    json({
      type: 'error',
      error: {
        type: 'invalid_request_error',
        message: 'The long context beta is not yet available for this subscription.',
      },
    }),
    [P, M],
  ],
  // gemini
  [
    'gemini',
    429,
    json([
      {
        error: {
          code: 429,
          message:
            'You exceeded your current quota. * Quota exceeded for metric: generativelanguage.googleapis.com/generate_content_free_tier_input_token_count, limit: 250000\nPlease retry in 34.074824224s.',
          status: 'RESOURCE_EXHAUSTED',
          details: [
            {
              '@type': 'type.googleapis.com/google.rpc.QuotaFailure',
              violations: [{ quotaId: 'GenerateContentInputTokensPerModelPerMinute-FreeTier' }],
            },
            { '@type': 'type.googleapis.com/google.rpc.RetryInfo', retryDelay: '34s' },
          ],
        },
      },
    ]),
    K,
    30000,
  ],
  [
    'gemini',
    500,
    json({
      error: { code: 500, message: 'An internal error has occurred. Please retry or report', status: 'INTERNAL' },
    }),
    R,
  ],
  [
    'gemini',
    400,
    json({
      error: { code: 400, message: 'User location is not supported for the API use.', status: 'FAILED_PRECONDITION' },
    }),
    P,
  ],
  [
    'gemini',
    403,
    json({
      error: {
        code: 403,
        message: 'Generative Language API has not been used in project 123 before or it is disabled.',
        status: 'PERMISSION_DENIED',
      },
    }),
    P,
  ],
  [
    'gemini',
    404,
    json({
      error: {
        code: 404,
        message: 'models/gemini-1.0 is not found for API version v1beta, or is not supported for generateContent.',
        status: 'NOT_FOUND',
      },
    }),
    M,
  ],
  [
    'gemini',
    504,
    json({
      error: { code: 504, message: 'Deadline expired before operation could complete.', status: 'DEADLINE_EXCEEDED' },
    }),
    R,
  ],
  [
    'gemini',
    400,
    json([{ error: { code: 400, message: 'Request contains an invalid argument.', status: 'INVALID_ARGUMENT' } }]),
    P,
  ],
  [
    'gemini',
    400,
    json([
      {
        error: {
          code: 400,
          message: 'API key expired. Please renew the API key.',
          status: 'INVALID_ARGUMENT',
          details: [{ reason: 'API_KEY_INVALID' }],
        },
      },
    ]),
    P,
  ],
  ['gemini', 200, json([{ error: { code: 503, message: 'The model is overloaded.', status: 'UNAVAILABLE' } }]), R],
  ['gemini', 200, json({ error: { code: 429, message: 'Resource exhausted', status: 'RESOURCE_EXHAUSTED' } }), K],
  [
    'gemini',
    429,
    json({
      error: {
        code: 429,
        message: 'Your prepayment credits are depleted. Please go to AI Studio to manage your project and billing.',
        status: 'RESOURCE_EXHAUSTED',
      },
    }),
    P,
  ],
  // deepseek
  [
    'deepseek',
    422,
    json({
      error: {
        message: 'Failed to deserialize the JSON body into the target type: messages[1]: missing field content',
        type: 'invalid_request_error',
      },
    }),
    P,
  ],
  ['deepseek', 400, openai('Model Not Exist', 'invalid_request_error', 'invalid_request_error'), M],
  ['deepseek', 429, openai('Rate limit reached', null, 'rate_limit'), K],
  // groq
  [
    'groq',
    429,
    openai(
      'Rate limit reached for model `x` in organization `org` service tier `on_demand` on tokens per day (TPD): Limit 100000, Used 99000, Requested 3000. Please try again in 28m3.2s. Need more tokens? Upgrade to Dev Tier today',
      'rate_limit_exceeded',
      'tokens',
    ),
    P,
  ],
  [
    'groq',
    400,
    openai(
      'The model `x` has been decommissioned and is no longer supported. Please refer to https://console.groq.com/docs/deprecations',
      'model_decommissioned',
      'invalid_request_error',
    ),
    M,
  ],
  [
    'groq',
    400,
    openai(
      'Please reduce the length of the messages or completion.',
      'context_length_exceeded',
      'invalid_request_error',
    ),
    O,
  ],
  [
    'groq',
    400,
    openai(
      "'max_tokens' : must be less than or equal to '32768', the maximum value for 'max_tokens' is less than the 'context_window' for this model",
      '',
      'invalid_request_error',
    ),
    [P, M],
  ],
  [
    'groq',
    400,
    json({
      error: {
        message: "Failed to call a function. Please adjust your prompt. See 'failed_generation' for more details.",
        type: 'invalid_request_error',
        code: 'tool_use_failed',
        failed_generation: '<tool',
      },
    }),
    [X, P],
  ],
  ['groq', 401, openai('Invalid API Key', 'invalid_api_key', 'invalid_request_error'), P],
  [
    'groq',
    404,
    openai('The model `x` does not exist or you do not have access to it.', 'model_not_found', 'invalid_request_error'),
    M,
  ],
  ['groq', 498, json({ error: { message: 'Flex tier capacity exceeded' } }), [P, R, K]],
  ['groq', 400, openai('`tool calling` is not supported with this model', null, 'invalid_request_error'), M],
  [
    'groq',
    400,
    openai(
      'Organization has been restricted. Please reach out to support',
      'organization_restricted',
      'invalid_request_error',
    ),
    P,
  ],
  // mistral
  [
    'mistral',
    429,
    json({
      object: 'error',
      message: 'Service tier capacity exceeded for this model.',
      type: 'service_tier_capacity_exceeded',
      param: null,
      code: '3505',
    }),
    K,
  ],
  [
    'mistral',
    429,
    json({ object: 'error', message: 'Rate limit exceeded', type: 'rate_limited', param: null, code: '1300' }),
    K,
  ],
  [
    'mistral',
    400,
    json({ object: 'error', message: 'Invalid model: mistral-zzz', type: 'invalid_model', param: null, code: '1500' }),
    M,
  ],
  ['mistral', 404, json({ detail: 'Not Found' }), P],
  [
    'mistral',
    422,
    json({
      object: 'error',
      message: {
        detail: [
          { type: 'less_than_equal', loc: ['body', 'max_tokens'], msg: 'Input should be less than or equal to 8192' },
        ],
      },
      type: 'invalid_request_error',
    }),
    P,
  ],
  [
    'mistral',
    400,
    json({
      object: 'error',
      message: 'Not the same number of function calls and responses',
      type: 'invalid_request_message_order',
      code: '3230',
    }),
    P,
  ],
  ['mistral', 402, json({ message: 'Payment required' }), P],
  [
    'mistral',
    500,
    json({ object: 'error', message: 'Service unavailable.', type: 'internal_server_error', code: '1000' }),
    R,
  ],
  // openrouter
  [
    'openrouter',
    429,
    json({
      error: {
        message: 'Rate limit exceeded: free-models-per-day. Add 10 credits to unlock 1000 free model requests per day',
        code: 429,
        metadata: { headers: { 'X-RateLimit-Limit': '50', 'X-RateLimit-Remaining': '0' } },
      },
    }),
    P,
  ],
  ['openrouter', 429, json({ error: { message: 'Rate limit exceeded: free-models-per-min. ', code: 429 } }), K],
  [
    'openrouter',
    402,
    json({
      error: {
        message:
          'This request requires more credits, or fewer max_tokens. You requested up to 32000 tokens, but can only afford 5000.',
        code: 402,
      },
    }),
    P,
  ],
  ['openrouter', 400, json({ error: { message: 'zzz/model is not a valid model ID', code: 400 } }), M],
  ['openrouter', 404, json({ error: { message: 'No endpoints found for vendor/model.', code: 404 } }), M],
  [
    'openrouter',
    404,
    json({ error: { message: 'No allowed providers are available for the selected model.', code: 404 } }),
    M,
  ],
  [
    'openrouter',
    403,
    json({
      error: {
        message: 'Your chosen model requires moderation and your input was flagged',
        code: 403,
        metadata: { reasons: ['x'] },
      },
    }),
    P,
  ],
  [
    'openrouter',
    200,
    json({
      error: {
        message: 'Provider returned error',
        code: 400,
        metadata: { raw: '{"error":{"message":"bad tool schema"}}' },
      },
    }),
    P,
  ],
  ['openrouter', 200, json({ error: { message: 'Internal Server Error', code: 500 } }), R],
  ['openrouter', 200, json({ error: { message: 'Insufficient credits', code: 402 } }), P],
  [
    'openrouter',
    502,
    json({
      error: { message: 'Provider returned error', code: 502, metadata: { raw: '{"error":{"code":"rate_limit"}}' } },
    }),
    R,
  ],
  ['openrouter', 408, json({ error: { message: 'Request Timeout', code: 408 } }), R],
  [
    'openrouter',
    403,
    json({
      error: {
        message: 'Key limit exceeded (monthly limit). Manage it using https://openrouter.ai/settings/keys',
        code: 403,
      },
    }),
    P,
  ],
  [
    'openrouter',
    400,
    json({
      error: {
        message:
          'This endpoint\'s maximum context length is 32768 tokens. However, you requested about 41000 tokens (39000 of text input, 2000 in the output). Please reduce the length of either one, or use the "middle-out" transform',
        code: 400,
      },
    }),
    O,
  ],
  // zai
  ['zai', 429, json({ error: { code: '1305', message: 'The API has triggered a rate limit.' } }), K],
  ['zai', 429, json({ error: { code: '1304', message: 'Daily call limit for this API reached.' } }), P],
  [
    'zai',
    429,
    json({
      error: { code: '1308', message: 'Usage limit reached for 5 hour. Your limit will reset at 2026-01-01 00:00:00' },
    }),
    P,
  ],
  ['zai', 400, json({ error: { code: '1211', message: 'Unknown Model, please check the model code.' } }), M],
  [
    'zai',
    400,
    json({ error: { code: '1301', message: 'System detected potentially unsafe or sensitive content' } }),
    P,
  ],
  ['zai', 401, json({ error: { code: '1000', message: 'Authentication Failed' } }), P],
  [
    'zai',
    500,
    json({ error: { code: '1234', message: 'Network error, error id: x, please contact customer service' } }),
    R,
  ],
  ['zai', 400, json({ error: { code: '1210', message: 'Invalid API parameter, please check the documentation.' } }), P],
  [
    'zai',
    429,
    json({
      error: { code: '1312', message: 'The model is currently experiencing high traffic, please try again later' },
    }),
    K,
  ],
  ['zai', 429, json({ error: { code: '1303', message: 'High frequency usage of this API' } }), K],
  ['zai', 429, json({ error: { code: '1309', message: 'Your GLM Coding Plan package has expired' } }), P],
  // moonshot
  [
    'moonshot',
    429,
    json({
      error: { message: 'The engine is currently overloaded, please try again later', type: 'engine_overloaded_error' },
    }),
    K,
  ],
  [
    'moonshot',
    400,
    json({
      error: {
        message: 'Invalid request: Your request exceeded model token limit: 131072',
        type: 'invalid_request_error',
      },
    }),
    O,
  ],
  [
    'moonshot',
    403,
    json({ error: { message: 'The API you are accessing is not open', type: 'permission_denied_error' } }),
    P,
  ],
  [
    'moonshot',
    404,
    json({ error: { message: 'Not found the model kimi-zzz or Permission denied', type: 'resource_not_found_error' } }),
    M,
  ],
  [
    'moonshot',
    429,
    json({
      error: {
        message: 'Your account org<ak> request reached organization TPD rate limit, current: 1500001, limit: 1500000',
        type: 'rate_limit_reached_error',
      },
    }),
    P,
  ],
  [
    'moonshot',
    429,
    json({
      error: {
        message:
          'Your account org<ak> request reached organization max concurrency: 3, please try again after 1 seconds',
        type: 'rate_limit_reached_error',
      },
    }),
    K,
    1000,
  ],
  ['moonshot', 401, json({ error: { message: 'Invalid Authentication', type: 'invalid_authentication_error' } }), P],
  // minimax
  ['minimax', 200, json({ base_resp: { status_code: 1039, status_msg: 'token limit' } }), K],
  ['minimax', 200, json({ base_resp: { status_code: 1000, status_msg: 'unknown error' } }), R],
  ['minimax', 200, json({ base_resp: { status_code: 1013, status_msg: 'unknown error' } }), R],
  ['minimax', 200, json({ base_resp: { status_code: 1001, status_msg: 'timeout' } }), R],
  ['minimax', 200, json({ base_resp: { status_code: 2013, status_msg: 'invalid params' } }), P],
  [
    'minimax',
    200,
    json({ base_resp: { status_code: 2013, status_msg: 'invalid params, context window exceeds limit' } }),
    O,
  ],
  ['minimax', 200, json({ base_resp: { status_code: 1026, status_msg: 'input new_sensitive' } }), P],
  ['minimax', 200, json({ base_resp: { status_code: 2049, status_msg: 'invalid api key' } }), P],
  ['minimax', 200, json({ base_resp: { status_code: 2056, status_msg: 'usage limit exceeded' } }), P],
  [
    'minimax',
    429,
    json({
      type: 'error',
      error: { type: 'rate_limit_error', message: 'rate limit exceeded(RPM) (1002)', http_code: '429' },
    }),
    K,
  ],
  [
    'minimax',
    500,
    json({
      type: 'error',
      error: { type: 'insufficient_balance_error', message: 'insufficient balance (1008)', http_code: '429' },
    }),
    [P, R],
  ],
  [
    'minimax',
    429,
    json({
      type: 'error',
      error: { type: 'insufficient_balance_error', message: 'insufficient balance (1008)', http_code: '429' },
    }),
    P,
  ],
  // dashscope
  [
    'dashscope',
    429,
    json({
      error: { code: 'limit_requests', message: 'You exceeded your current requests list.', type: 'limit_requests' },
    }),
    K,
  ],
  [
    'dashscope',
    429,
    json({ code: 'Throttling.RateQuota', message: 'Requests rate limit exceeded, please try again later.' }),
    K,
  ],
  [
    'dashscope',
    429,
    json({
      code: 'Throttling.AllocationQuota',
      message: 'Allocated quota exceeded, please increase your quota limit.',
    }),
    K,
  ],
  [
    'dashscope',
    403,
    json({
      error: { code: 'AllocationQuota.FreeTierOnly', message: 'The free tier of the model has been exhausted.' },
    }),
    P,
  ],
  [
    'dashscope',
    400,
    json({
      error: {
        code: 'invalid_parameter_error',
        message: '<400> InternalError.Algo.InvalidParameter: Range of max_tokens should be [1, 8192]',
      },
    }),
    [P, M],
  ],
  [
    'dashscope',
    400,
    json({ error: { code: 'data_inspection_failed', message: 'Input text data may contain inappropriate content.' } }),
    P,
  ],
  ['dashscope', 403, json({ error: { code: 'access_denied', message: 'Model access denied.' } }), [P, M]],
  ['dashscope', 401, json({ error: { code: 'invalid_api_key', message: 'Incorrect API key provided.' } }), P],
  ['dashscope', 500, json({ error: { code: 'internal_error', message: 'An internal error has occured' } }), R],
  // xai
  [
    'xai',
    429,
    json({
      code: 'Some resource has been exhausted',
      error: 'Too many requests for team x. Requests per second (actual/limit): 5/4',
    }),
    K,
  ],
  [
    'xai',
    404,
    json({
      code: 'Some requested entity was not found',
      error: 'The model grok-zzz does not exist or your team x does not have access to it.',
    }),
    M,
  ],
  [
    'xai',
    403,
    json({
      code: 'The caller does not have permission to execute the specified operation',
      error: 'The API key is blocked.',
    }),
    P,
  ],
  ['xai', 400, json({ code: 'Client specified an invalid argument', error: 'Model not found: grok-9' }), M],
  // cohere
  ['cohere', 429, json({ message: 'You are using a Trial key, which is limited to 1000 API calls / month.' }), P],
  ['cohere', 404, json({ message: "model 'command-zzz' not found, make sure the correct model ID was used" }), M],
  ['cohere', 401, json({ message: 'invalid api token' }), P],
  ['cohere', 500, json({ message: 'internal server error' }), R],
  // cerebras
  [
    'cerebras',
    400,
    json({
      message: 'Please reduce the length of the messages or completion. Current length is 9000 while limit is 8192',
      type: 'invalid_request_error',
      param: 'messages',
      code: 'context_length_exceeded',
    }),
    O,
  ],
  [
    'cerebras',
    429,
    json({
      message: 'Requests per day limit exceeded - too many requests sent.',
      type: 'too_many_requests_error',
      param: 'quota',
      code: 'request_quota_exceeded',
    }),
    P,
  ],
  [
    'cerebras',
    429,
    json({
      message: 'Requests per minute limit exceeded - too many requests sent.',
      type: 'too_many_requests_error',
      param: 'quota',
      code: 'request_quota_exceeded',
    }),
    K,
  ],
  [
    'cerebras',
    429,
    json({
      message: "We're experiencing high traffic right now! Please try again soon.",
      type: 'too_many_requests_error',
      param: 'queue',
      code: 'queue_exceeded',
    }),
    K,
  ],
  [
    'cerebras',
    404,
    json({
      message: 'Model x does not exist or you do not have access to it.',
      type: 'not_found_error',
      param: 'model',
      code: 'model_not_found',
    }),
    M,
  ],
  // together/fireworks/hf
  [
    'together',
    429,
    openai(
      'You have reached the rate limit specific to this model x. The maximum rate limit for this model is 0.6 queries and 180000 tokens per minute.',
      null,
      'model_rate_limit',
    ),
    K,
  ],
  [
    'together',
    404,
    openai(
      'Unable to access model zzz. Please visit https://api.together.ai/models to view the list of supported models.',
      'model_not_available',
      'invalid_request_error',
    ),
    M,
  ],
  [
    'together',
    402,
    openai('Credit limit exceeded, please navigate to https://api.together.ai/settings/billing', '', 'credit_limit'),
    P,
  ],
  [
    'together',
    400,
    openai(
      'Input validation error: `inputs` must have less than 4096 tokens. Given: 5000',
      null,
      'invalid_request_error',
    ),
    O,
  ],
  [
    'fireworks',
    404,
    json({
      error: {
        object: 'error',
        type: 'invalid_request_error',
        code: 'NOT_FOUND',
        message: 'Model not found, inaccessible, and/or not deployed',
      },
    }),
    M,
  ],
  [
    'fireworks',
    400,
    json({
      error: {
        object: 'error',
        type: 'invalid_request_error',
        message: 'The prompt is too long: 140000, model maximum context length: 131071',
      },
    }),
    O,
  ],
  ['fireworks', 503, json({ error: { message: 'service overloaded' } }), R],
  [
    'huggingface',
    400,
    json({
      error: {
        message: "The requested model 'x' is not supported by any provider you have enabled.",
        type: 'invalid_request_error',
        code: 'model_not_supported',
      },
    }),
    M,
  ],
  ['huggingface', 503, json({ error: 'Model x is currently loading', estimated_time: 20 }), R],
  [
    'huggingface',
    422,
    json({
      error:
        'Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. Given: 4000 `inputs` tokens and 512 `max_new_tokens`',
      error_type: 'validation',
    }),
    O,
  ],
  ['huggingface', 401, json({ error: 'Invalid credentials in Authorization header' }), P],
  ['huggingface', 429, json({ error: 'You have reached the free monthly usage limit for x.' }), P],
  // vllm/llama.cpp/ollama/lmstudio/sglang
  [
    'vllm',
    400,
    json({
      object: 'error',
      message:
        "'max_tokens' or 'max_completion_tokens' is too large: 40000. This model's maximum context length is 32768 tokens and your request has 100 input tokens (40000 > 32768 - 100).",
      type: 'BadRequestError',
      code: 400,
    }),
    O,
  ],
  [
    'vllm',
    400,
    json({
      error: {
        message:
          'The decoder prompt (length 50000) is longer than the maximum model length of 32768. Make sure that `max_model_len` is no smaller than the number of text tokens.',
        type: 'BadRequestError',
        code: 400,
      },
    }),
    O,
  ],
  [
    'vllm',
    400,
    json({
      object: 'error',
      message: '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set',
      type: 'BadRequestError',
      code: 400,
    }),
    [P, M],
  ],
  [
    'vllm',
    404,
    json({ error: { message: 'The model `x` does not exist.', type: 'NotFoundError', param: 'model', code: 404 } }),
    M,
  ],
  ['vllm', 404, json({ detail: 'Not Found' }), P],
  [
    'vllm',
    500,
    json({ object: 'error', message: 'EngineCore encountered an issue.', type: 'InternalServerError', code: 500 }),
    R,
  ],
  [
    'llama.cpp',
    500,
    json({ error: { code: 500, message: 'context shift is disabled', type: 'server_error' } }),
    [O, R],
  ],
  [
    'llama.cpp',
    400,
    json({
      error: {
        code: 400,
        message: 'input is too large to process. increase the physical batch size',
        type: 'invalid_request_error',
      },
    }),
    [O, P],
  ],
  [
    'llama.cpp',
    500,
    json({
      error: {
        code: 500,
        message: 'the request exceeds the available context size (8192 tokens), try increasing it',
        type: 'server_error',
      },
    }),
    O,
  ],
  [
    'llama.cpp',
    500,
    json({ error: { code: 500, message: 'Failed to parse input at pos 12: <tool_call>', type: 'server_error' } }),
    X,
  ],
  [
    'llama.cpp',
    500,
    json({
      error: { code: 500, message: 'The model produced an unparsed peg-native output: xx', type: 'server_error' },
    }),
    X,
  ],
  [
    'llama.cpp',
    501,
    json({ error: { code: 501, message: 'This feature is disabled', type: 'not_supported_error' } }),
    M,
  ],
  [
    'llama.cpp',
    400,
    json({ error: { code: 400, message: 'tools param requires --jinja flag', type: 'invalid_request_error' } }),
    [P, M],
  ],
  ['llama.cpp', 404, json({ error: { code: 404, message: 'File Not Found', type: 'not_found_error' } }), P],
  [
    'llama.cpp',
    500,
    json({ error: { code: 500, message: 'tokenize: error: template rendering failed', type: 'server_error' } }),
    R,
  ],
  [
    'ollama',
    400,
    json({ error: { message: 'registry.ollama.ai/library/x does not support tools', type: 'api_error' } }),
    M,
  ],
  [
    'ollama',
    500,
    json({ error: { message: 'llama runner process has terminated: exit status 2', type: 'api_error' } }),
    R,
  ],
  ['ollama', 404, json({ error: "model 'x' not found" }), M],
  ['ollama', 400, json({ error: 'invalid model name' }), M],
  [
    'ollama',
    500,
    json({ error: { message: 'error parsing tool call: raw=\'{"a"\', err=unexpected end of JSON input' } }),
    X,
  ],
  [
    'lmstudio',
    400,
    json({
      error:
        'The number of tokens to keep from the initial prompt is greater than the context length. Try to load the model with a larger context length',
    }),
    O,
  ],
  [
    'lmstudio',
    400,
    json({
      error: {
        message: 'No models loaded. Please load a model in the developer page or use the `lms load` command.',
        type: 'invalid_request_error',
        code: 'model_not_found',
      },
    }),
    M,
  ],
  ['lmstudio', 404, json({ error: 'Model "x" not found' }), M],
  ['lmstudio', 400, json({ error: 'Model does not exist' }), M],
  [
    'lmstudio',
    400,
    json({ error: { message: 'Invalid model identifier "x". There are no downloaded llm models' } }),
    M,
  ],
  [
    'sglang',
    400,
    json({
      object: 'error',
      message: "The input (5000 tokens) is longer than the model's context length (4096 tokens).",
      type: 'BadRequest',
      code: 400,
    }),
    O,
  ],
  [
    'sglang',
    400,
    json({
      object: 'error',
      message:
        "Requested token count exceeds the model's maximum context length of 4096 tokens. You requested a total of 6000 tokens",
      type: 'BadRequestError',
      code: 400,
    }),
    O,
  ],
  [
    'tgi',
    422,
    json({
      error: 'Input validation error: `inputs` must have less than 1024 tokens. Given: 2000',
      error_type: 'validation',
    }),
    O,
  ],
  [
    'tgi',
    424,
    json({ error: 'Request failed during generation: Server error: CUDA out of memory', error_type: 'generation' }),
    P,
  ],
  // proxy
  ['proxy', 403, '<html><h1>403 Forbidden</h1></html>', P],
  ['proxy', 413, '<html><head><title>413 Request Entity Too Large</title></head></html>', P],
  ['proxy', 404, '404 page not found', P],
  ['proxy', 504, '<html>504 Gateway Time-out</html>', R],
  ['proxy', 521, '', R],
  ['proxy', 530, '', R],
  ['proxy', 500, 'null', R],
  ['proxy', 429, '"slow down"', K],
  ['proxy', 400, '[]', P],
  ['proxy', 400, '', P],
  ['proxy', 418, 'x', P],
  [
    'proxy',
    503,
    openai('No available channel for model gpt-x under group default', 'model_not_found', 'new_api_error'),
    [R, M],
  ],
  ['proxy', 429, json({ error: { message: '当前分组上游负载已饱和，请稍后再试', type: 'new_api_error' } }), K],
  [
    'proxy',
    403,
    json({ error: { message: 'user quota is not enough', type: 'new_api_error', code: 'insufficient_user_quota' } }),
    P,
  ],
  [
    'litellm',
    400,
    json({
      error: {
        message:
          "litellm.ContextWindowExceededError: litellm.BadRequestError: ContextWindowExceededError: OpenAIException - This model's maximum context length is 8192 tokens.",
        type: null,
        param: null,
        code: '400',
      },
    }),
    O,
  ],
  [
    'litellm',
    429,
    json({
      error: {
        message: 'litellm.RateLimitError: OpenAIException - You exceeded your current quota',
        type: 'insufficient_quota',
        code: '429',
      },
    }),
    P,
  ],
  [
    'litellm',
    400,
    json({
      error: {
        message: 'Budget has been exceeded! Current cost: 10.1, Max budget: 10.0',
        type: 'budget_exceeded',
        param: null,
        code: '400',
      },
    }),
    P,
  ],
  ['bedrock-gateway', 429, json({ message: 'Too many tokens, please wait before trying again.' }), K],
  ['bedrock-gateway', 429, json({ message: 'Too many tokens per day, please wait before trying again.' }), P],
  ['bedrock-gateway', 400, json({ message: 'The provided model identifier is invalid.' }), M],
  ['bedrock-gateway', 403, json({ message: "You don't have access to the model with the specified model ID." }), M],
  [
    'bedrock-gateway',
    424,
    json({ message: 'The system encountered an unexpected error during processing. Try your request again.' }),
    P,
  ],
  [
    'github',
    413,
    json({
      error: {
        code: 'tokens_limit_reached',
        message: 'Request body too large for gpt-4o model. Max size: 8000 tokens.',
      },
    }),
    [O, P],
  ],
  [
    'github',
    429,
    json({
      error: {
        code: 'RateLimitReached',
        message:
          'Rate limit of 50 per 86400s exceeded for UserByModelByDay. Please wait 12000 seconds before retrying.',
      },
    }),
    P,
  ],
  [
    'perplexity',
    400,
    json({
      error: {
        message: "Invalid model 'x'. Permitted models can be found in the documentation",
        type: 'invalid_model',
        code: 400,
      },
    }),
    M,
  ],
  ['perplexity', 401, '<html><center><h1>401 Authorization Required</h1></center></html>', P],
  ['sambanova', 429, json({ error: { message: 'Rate limit exceeded', type: 'rate_limit_exceeded', code: null } }), K],
  [
    'nvidia',
    404,
    json({ status: 404, title: 'Not Found', detail: "Function 'abc': Not found for account 'x'" }),
    [P, M],
  ],
  ['nvidia', 402, json({ status: 402, title: 'Payment Required', detail: 'Cloud credits expired' }), P],
  ['stream', 200, json({ error: 'upstream timeout' }), R],
  ['stream', 200, json({ error: { message: 'Too many requests' } }), K],
  ['stream', 200, json({ error: { message: "This model's maximum context length is 100 tokens" } }), O],
  ['stream', 200, json({ error: { message: 'Invalid API key', code: 401 } }), P],
  ['stream', 200, json({ error: { message: 'model x not found', code: 'model_not_found' } }), M],
  ['stream', 200, json({ error: { message: 'Insufficient Balance', code: 'invalid_request_error' } }), P],
];

/** The same for any provider: status, body, class. */
const BY_SHAPE: [number, string, Right][] = [
  [400, json({ error: json({ message: ctx }) }), O],
  [400, json({ error: { message: json({ error: { code: 'context_length_exceeded' } }) } }), O],
  [400, json({ error: [{ message: ctx }] }), O],
  [400, json({ error: { error: { message: ctx } } }), O],
  [400, json({ errors: [{ message: ctx }] }), O],
  [400, json({ msg: ctx, code: 'x' }), O],
  [400, json({ detail: ctx }), O],
  [400, json([{ error: { message: ctx } }]), O],
  [400, '{"error":{"message":"' + ctx, O],
  [500, json({ error: { message: ctx } }), O],
  [413, json({ error: { message: ctx } }), O],
  [422, json({ error: { message: ctx } }), O],
  [400, json({ error: { message: 'Provider returned error', metadata: { raw: ctx } } }), O],
  [400, json({ error: { message: 'Error from provider: ' + json({ error: { message: ctx } }) } }), O],
  [429, json({ error: { message: ctx, code: 'context_length_exceeded' } }), K],
  [402, json({ error: { message: ctx } }), P],
  [400, json({ error: { message: 'prompt token count of 150000 exceeds the limit of 128000' } }), O],
  [
    400,
    json({
      error: {
        message: 'Input tokens exceed the configured limit of 272000 tokens. Your messages resulted in 300000 tokens.',
      },
    }),
    O,
  ],
  [400, json({ error: { message: "The total number of tokens in the prompt exceeds the model's limit of 8192" } }), O],
  [400, json({ message: 'Input length 9000 exceeds maximum allowed token size 8192' }), O],
  [400, json({ error: { message: 'total tokens 9000 exceed max 8192' } }), [O, P]],
  [400, json({ error: { message: 'The request was too long for the context window.' } }), O],
  [400, json({ error: { message: 'Conversation too long; please start a new one' } }), [O, P]],
  [400, json({ error: { message: 'exceeds the maximum number of tokens allowed (1048576)' } }), O],
  [400, json({ error: { message: 'Requested tokens (9000) exceed context window of 8192' } }), O],
  [400, json({ error: { message: 'the prompt contains too many tokens' } }), O],
  [400, json({ error: { message: 'max_tokens must be less than or equal to 8192', code: 'invalid_value' } }), [P, M]],
  [400, json({ error: { message: 'max_completion_tokens exceeds the maximum output of 16384 tokens' } }), [P, M]],
  [400, json({ error: { message: '`max_tokens` must be at most 4096' } }), [P, M]],
  [503, json({ error: { message: 'Server overloaded, cannot create context' } }), R],
  [429, json({ detail: 'Rate limit exceeded' }), K],
  [429, json({ error: 'Too Many Requests' }), K],
  [429, 'Too Many Requests', K],
  [429, json({ code: 429, msg: 'qps limit' }), K],
  [
    429,
    json({ error: { message: 'Quota exceeded for quota metric requests and limit requests per minute per user' } }),
    K,
  ],
  [429, json({ error: { message: 'You have exceeded your monthly quota' } }), P],
  [429, json({ error: { message: 'Daily quota exceeded' } }), P],
  [429, json({ error: { message: 'Your daily limit has been reached' } }), P],
  [429, json({ error: { message: 'Monthly limit exceeded' } }), P],
  [429, json({ error: { message: 'You have run out of credits' } }), P],
  [429, json({ error: { message: 'weekly usage cap reached' } }), P],
  [429, json({ error: { message: 'Your plan limit has been reached, upgrade your plan' } }), [P, K]],
  [429, json({ error: { message: 'Rate limit reached. Please upgrade your plan for more, see billing.' } }), K],
  [429, json({ error: { message: 'quota exceeded' } }), K],
  [403, json({ error: { message: 'Quota exceeded' } }), P],
  [400, json({ error: { message: 'insufficient funds' } }), P],
  [200, json({ error: { code: 'insufficient_quota', message: 'x' } }), P],
  [200, json({ error: { type: 'insufficient_quota', message: 'x' } }), P],
  [200, json({ error: { code: '429', message: 'x' } }), K],
  [200, json({ error: { code: 503 } }), R],
  [200, json({ error: { message: 'x', type: 'overloaded_error' } }), R],
  [200, json({ error: { message: 'upstream error', type: 'upstream_error' } }), R],
  [200, json({ error: { code: 404, message: 'No endpoints found' } }), M],
  [200, json({ error: { status: 500, message: 'boom' } }), R],
  [200, json({ error: { message: 'timeout' } }), R],
  [200, json({ error: { code: 'invalid_api_key', message: 'bad' } }), P],
  [200, json({ error: { message: 'Unauthorized', code: 401 } }), P],
  [400, json({ error: { code: 'rate_limit_exceeded', message: 'x' } }), P],
  [403, json({ error: { code: 'rate_limit_exceeded', message: 'Rate limit' } }), P],
  [413, json({ error: { code: 'rate_limit_exceeded', message: 'Request too large, TPM' } }), P],
  [400, json({ error: { message: 'Requested 1113 items, code 1302' } }), P],
  [500, json({ error: { message: 'error 429 from tool' } }), R],
  [400, json({ error: { message: 'got 503 upstream' } }), P],
  [400, json({ error: { code: 1113, message: 'x' } }), P],
  [429, json({ error: { code: 1302, message: 'x' } }), K],
  [410, json({ error: { message: 'The model gpt-x has been retired' } }), M],
  [404, json({ error: { message: 'Deployment not found' } }), M],
  [404, json({ error: 'not found' }), P],
  [404, '', P],
  [400, json({ error: { message: 'model is required' } }), P],
  [403, json({ error: { message: 'Your plan does not include access to this model' } }), M],
  [403, json({ error: { message: 'You do not have access to model x' } }), M],
  [400, json({ error: { message: 'tools are not supported by this model' } }), M],
  [400, json({ error: { message: 'This model does not support function calling' } }), M],
  [404, json({ error: { message: 'The model `x` has been deprecated' } }), M],
  [501, '', R],
  [505, '', R],
  [599, '', R],
  [425, '', P],
  [409, '', P],
  [499, '', P],
  [407, '', P],
  [500, json({ error: { message: 'Failed to parse tool call arguments as JSON' } }), X],
  [200, json({ error: { message: 'Failed to parse tool call arguments as JSON', code: 500 } }), X],
  [0, '', R],
];

describe('failures as providers report them', () => {
  it.each(BY_PROVIDER)('%s %i %s', (provider, status, body, right, waitMs) => {
    const verdict = classifyFailure({ provider, status, body, headers: {}, now: 0 });
    expect([right].flat()).toContain(verdict.class);
    if (waitMs !== undefined) expect(verdict.retryAfterMs).toBe(waitMs);
  });

  it.each(BY_SHAPE)('%i %s', (status, body, right) => {
    expect([right].flat()).toContain(classifyFailure({ provider: 'generic', status, body, headers: {} }).class);
  });
});
