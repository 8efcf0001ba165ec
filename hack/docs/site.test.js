// Run by build.sh, beside a copy of docs.
import assert from 'node:assert/strict'
import { readdirSync } from 'node:fs'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { anchor } from './docs/.vitepress/links.js'
import { sidebar } from './docs/.vitepress/sidebar.js'

const docs = fileURLToPath(new URL('docs', import.meta.url))

test('each page stands in the sidebar once', () => {
  const pages = readdirSync(docs, { recursive: true })
    .filter((name) => name.endsWith('.md') && name !== 'index.md' && name !== 'contents.md')
    .map((name) => '/' + name.slice(0, -'.md'.length))
  const links = (item) => (item.items ? item.items.flatMap(links) : [item.link])
  assert.deepEqual(sidebar(docs).flatMap(links).sort(), pages.sort())
})

test('anchors are those of GitHub', () => {
  for (const [heading, want] of [
    ['The `--app` flag', 'the---app-flag'],
    ['Kubernetes before 1.36', 'kubernetes-before-136'],
    ['Start, stop', 'start-stop'],
    ['spec.podTemplate_name', 'specpodtemplate_name'],
  ]) {
    assert.equal(anchor(heading), want)
  }
})
