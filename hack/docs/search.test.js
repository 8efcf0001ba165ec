// Run by build.sh on the site that it built: the search finds the words that people use.
import assert from 'node:assert/strict'
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { fileURLToPath, pathToFileURL } from 'node:url'
import MiniSearch from 'minisearch'

const chunks = fileURLToPath(new URL('site/assets/chunks', import.meta.url))
const file = readdirSync(chunks).find((name) => name.startsWith('@localSearchIndexroot'))
const { default: stored } = await import(pathToFileURL(join(chunks, file)))
// The options are those of VitePress.
const index = MiniSearch.loadJSON(stored, {
  fields: ['title', 'titles', 'text'],
  storeFields: ['title', 'titles'],
  searchOptions: { fuzzy: 0.2, prefix: true, boost: { title: 4, text: 2, titles: 1 } },
})

for (const [words, page] of [
  ['rollback', '/how-to/upgrade'],
  ['downgrade', '/how-to/upgrade'],
  ['backup', '/how-to/back-up-and-restore'],
  ['disaster recovery', '/how-to/back-up-and-restore'],
  ['airgap', '/how-to/install-without-internet'],
  ['air-gapped', '/how-to/install-without-internet'],
  ['offline', '/how-to/install-without-internet'],
  ['ssh', '/how-to/connect-an-ide'],
  ['VS Code', '/how-to/connect-an-ide'],
  ['JetBrains', '/how-to/connect-an-ide'],
  ['SSO', '/how-to/set-up-single-sign-on'],
  ['OIDC', '/how-to/set-up-single-sign-on'],
  ['OpenShift', '/how-to/install-on-openshift'],
  ['private cluster', '/how-to/use-a-private-cluster'],
  ['license', '/how-to/license-coder'],
  ['podTemplate', '/reference/codercontrolplane'],
  ['ImagePullBackOff', '/how-to/troubleshoot'],
]) {
  test(`"${words}" finds ${page}`, () => {
    const found = index.search(words).slice(0, 8).map((each) => each.id.replace(/(\.html)?(#.*)?$/, ''))
    assert.ok(found.includes(page), `found ${found.join(', ')}`)
  })
}
