// Links as they work both in a clone, on GitHub, and on the site.
import { posix } from 'node:path'

const source = 'https://github.com/coder-k8s/coder-k8s/blob/main/'

// anchor makes the anchor of a heading as GitHub does, so that one link works in both places.
export function anchor(heading) {
  return heading.trim().toLowerCase().replace(/[^\p{L}\p{M}\p{N}\p{Pc} -]/gu, '').replaceAll(' ', '-')
}

// outside is a plugin of markdown-it: what a page links to outside of docs, which the site does not hold, is linked to where
// the sources are. test/docs sees to it that the file exists.
export function outside(md) {
  md.core.ruler.push('outside', (state) => {
    for (const block of state.tokens) {
      for (const token of block.children ?? []) {
        if (token.type === 'link_open') token.attrSet('href', target(token.attrGet('href'), state.env.relativePath))
      }
    }
  })
}

function target(href, page) {
  if (/^([a-z]+:|#|\/)/.test(href)) return href
  const path = posix.join('docs', posix.dirname(page), href)
  return path.startsWith('docs/') && !/\.(go|yaml|json)$/.test(path) ? href : source + path
}
