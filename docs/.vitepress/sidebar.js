// The sidebar, from docs/contents.md: its parts ("## "), their groups ("### ") and the pages of each, which have the title
// that their first line gives them.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'

export function sidebar(docs) {
  const parts = []
  let items
  for (const line of readFileSync(join(docs, 'contents.md'), 'utf8').split('\n')) {
    const part = line.match(/^## (.*)/)
    const group = line.match(/^### (.*)/)
    const page = line.match(/^- \[[^\]]*\]\((.*)\.md\)/)
    if (part) {
      items = []
      parts.push({ text: part[1], collapsed: false, items })
    } else if (group) {
      items = []
      parts.at(-1).items.push({ text: group[1], collapsed: true, items })
    } else if (page) {
      items.push({ text: title(join(docs, page[1] + '.md')), link: '/' + page[1] })
    }
  }
  return parts
}

function title(file) {
  const line = readFileSync(file, 'utf8').split('\n').find((each) => each.startsWith('# '))
  if (line === undefined) throw new Error(`${file} has no title: begin it with a line "# Title"`)
  return line.slice('# '.length)
}
