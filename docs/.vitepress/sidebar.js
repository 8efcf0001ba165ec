// The sidebar, from the folders of docs: each page of theirs once, by the title that its first line gives it.
// A page stands where docs/index.md names it first, and at the end of its part where that does not.
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

// The four parts of Diátaxis, in the order in which people need them.
const parts = [
  ['tutorials', 'Tutorials'],
  ['how-to', 'How to'],
  ['reference', 'Reference'],
  ['explanation', 'Explanation'],
]

export function sidebar(docs) {
  const index = readFileSync(join(docs, 'index.md'), 'utf8')
  return parts.map(([folder, text]) => ({ text, collapsed: false, items: pages(docs, folder, index) }))
}

function pages(docs, folder, index) {
  return readdirSync(join(docs, folder))
    .filter((name) => name.endsWith('.md'))
    .sort()
    .map((name) => ({ name, place: placeOf(`${folder}/${name}`, index) }))
    .sort((a, b) => a.place - b.place)
    .map(({ name }) => ({ text: title(join(docs, folder, name)), link: `/${folder}/${name.slice(0, -'.md'.length)}` }))
}

function placeOf(page, index) {
  const place = index.indexOf(`](${page})`)
  return place < 0 ? Number.MAX_SAFE_INTEGER : place
}

function title(file) {
  const line = readFileSync(file, 'utf8').split('\n').find((each) => each.startsWith('# '))
  if (line === undefined) throw new Error(`${file} has no title: begin it with a line "# Title"`)
  return line.slice('# '.length)
}
