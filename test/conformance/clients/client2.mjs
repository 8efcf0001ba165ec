// The second TypeScript SDK. MCP_MODE is how it finds out which protocol the server speaks: "auto", "legacy" or a revision.
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';

import { requestInit, run, url } from './checks.mjs';

const mode = /^\d/.test(process.env.MCP_MODE) ? { pin: process.env.MCP_MODE } : process.env.MCP_MODE;

await run(async ask => {
  const client = new Client({ name: 'client2', version: '1' }, { capabilities: ask ? { elicitation: {} } : {}, versionNegotiation: { mode } });
  if (ask) client.setRequestHandler('elicitation/create', ({ params }) => ask(params));
  const transport = new StreamableHTTPClientTransport(url, { requestInit });
  await client.connect(transport);
  return {
    client,
    revision: () => client.getNegotiatedProtocolVersion(),
    call: (params, options) => client.callTool(params, options),
    close: () => client.close(),
  };
});
