// The first TypeScript SDK, which most clients have: the protocol up to 2025-11-25.
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { ElicitRequestSchema } from '@modelcontextprotocol/sdk/types.js';

import { requestInit, run, url } from './checks.mjs';

await run(async ask => {
  const client = new Client({ name: 'sdk1', version: '1' }, { capabilities: ask ? { elicitation: {} } : {} });
  if (ask) client.setRequestHandler(ElicitRequestSchema, ({ params }) => ask(params));
  const transport = new StreamableHTTPClientTransport(url, { requestInit });
  await client.connect(transport);
  return {
    client,
    revision: () => transport.protocolVersion,
    call: (params, options) => client.callTool(params, undefined, options),
    close: () => client.close(),
  };
});
