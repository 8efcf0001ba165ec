// What each client must be able to do with the real server. A client is given as
//
//   connect(ask)        a connection; ask answers the server's questions to the user, without it nobody can be asked
//   .client             the client of the package
//   .call(params, opts) calls a tool
//   .close()
//
// The environment describes the objects (MCP_NAMESPACE, MCP_WORKSPACES) and the features of this client with this server
// (MCP_REVISION, MCP_ASKS). Each check prints one line of JSON; the Go test beside the server reads them.
// Then the connections stay open until the Go test has checked the server and closes the standard input.
import assert from 'node:assert/strict';
import { once } from 'node:events';

const namespace = process.env.MCP_NAMESPACE;
const workspaces = JSON.parse(process.env.MCP_WORKSPACES);
const limit = 60_000;

export const url = new URL(process.env.MCP_URL);
export const requestInit = { headers: { Authorization: `Bearer ${process.env.MCP_TOKEN}` } };

export async function run(toConnect) {
  const connections = [];
  const connect = async ask => {
    const connection = await toConnect(ask);
    connections.push(connection);
    return connection;
  };
  const connection = await connect();
  let failed = 0;
  for (const [name, check] of checks(connection, connect)) {
    let error;
    try {
      await within(check());
    } catch (e) {
      failed++;
      error = String(e?.stack ?? e);
    }
    console.log(JSON.stringify({ name, error }));
  }
  console.log(JSON.stringify({ done: true }));
  await once(process.stdin.resume(), 'end');
  await Promise.all(connections.map(connection => connection.close()));
  process.exitCode = failed ? 1 : 0;
}

// within returns the promise with a time limit.
function within(promise) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`not within ${limit / 1000} s`)), limit);
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

function* checks(connection, connect) {
  const { client, call } = connection;
  const toBeStopped = { name: 'set_workspace_running', arguments: { namespace, name: workspaces.told, running: false, wait: true } };

  yield ['knows the server', async () => {
    assert.equal(connection.revision(), process.env.MCP_REVISION);
    assert.equal(client.getServerVersion().name, 'coder-k8s');
    assert.match(client.getInstructions(), /confirm/);
  }];
  yield ['lists the tools', async () => {
    const { tools } = await client.listTools();
    assert.equal(tools.length, Number(process.env.MCP_TOOLS));
    for (const tool of tools) {
      assert.ok(tool.title && tool.outputSchema && tool.annotations, `${tool.name} has no title, output schema or annotations`);
    }
  }];
  // The client checks the content against the output schema, which it knows from the list.
  yield ['calls a tool and understands its content', async () => {
    const { structuredContent, isError } = await call({ name: 'list_workspaces', arguments: { namespace } });
    assert.ok(!isError);
    const names = structuredContent.items.map(item => item.name);
    assert.ok(names.includes(workspaces.running), `${workspaces.running} is not among ${names}`);
  }];
  yield ['is told in one sentence what is wrong', async () => {
    const { content, isError } = await call({ name: 'get_workspace', arguments: { namespace, name: 'coder.admin.nobody' } });
    assert.ok(isError);
    assert.match(content[0].text, /^there is no [^\n]*coder\.admin\.nobody; [^\n]*$/);
  }];
  yield ['gets a prompt', async () => {
    const { messages } = await client.getPrompt({ name: 'diagnose_workspace', arguments: { namespace, name: workspaces.running } });
    assert.ok(messages[0].content.text.includes(workspaces.running));
  }];
  yield ['hears of progress', async () => {
    const heard = [];
    const { structuredContent } = await call(
      { name: 'set_workspace_running', arguments: { namespace, name: workspaces.slow, running: true, wait: true } },
      { onprogress: ({ progress }) => heard.push(progress) },
    );
    assert.equal(structuredContent.workspace.phase, 'Running');
    assert.ok(heard.length > 1, `heard only ${heard}`);
    assert.deepEqual(heard, heard.toSorted((a, b) => a - b));
  }];
  // Whether the server has noticed is what the Go test looks at.
  yield ['cancels a call', async () => {
    const one = await connect();
    const controller = new AbortController();
    const answer = one.call(
      { name: 'set_workspace_running', arguments: { namespace, name: workspaces.stuck, running: true, wait: true } },
      { signal: controller.signal, onprogress: () => controller.abort('the user has changed their mind') },
    );
    await assert.rejects(answer, /changed their mind/);
    // Without a session the server of 2025-11-25 detects a cancellation only by the end of the connection.
    if (!process.env.MCP_ASKS) await one.close();
  }];
  yield ['confirms by an argument', async () => {
    const { content, isError } = await call(toBeStopped);
    assert.ok(isError);
    assert.match(content[0].text, /nothing was done yet/);
    const confirmed = { ...toBeStopped, arguments: { ...toBeStopped.arguments, confirm: workspaces.told } };
    const { structuredContent } = await call(confirmed);
    assert.equal(structuredContent.workspace.phase, 'Stopped');
  }];
  if (process.env.MCP_ASKS) {
    yield ['confirms by asking the user', async () => {
      const questions = [];
      let agrees = false;
      const one = await connect(({ message }) => {
        questions.push(message);
        return agrees ? { action: 'accept', content: { confirm: true } } : { action: 'decline' };
      });
      const toBeDeleted = { name: 'delete_workspace', arguments: { namespace, name: workspaces.told } };
      const declined = await one.call(toBeDeleted);
      assert.ok(declined.isError);
      assert.match(declined.content[0].text, /the user did not agree/);
      agrees = true;
      const agreed = await one.call(toBeDeleted);
      assert.ok(!agreed.isError, JSON.stringify(agreed.content));
      assert.equal(questions.length, 2);
      assert.ok(questions.every(question => question.includes(workspaces.told)), `the questions are ${questions}`);
    }];
  }
}
