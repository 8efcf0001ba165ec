// pictures.js [--check] DOCS: makes DOCS/pictures from their sources in DOCS/diagrams: each NAME.dot becomes a diagram by
// Graphviz, each NAME.vl.json a graph by Vega-Lite. With --check it writes nothing, and fails where a picture differs.
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { diagram } from './diagram.js'
import { graph } from './graph.js'

const makers = { '.dot': diagram, '.vl.json': graph }

const check = process.argv[2] === '--check'
const docs = process.argv[check ? 3 : 2]
const sources = join(docs, 'diagrams')
mkdirSync(join(docs, 'pictures'), { recursive: true })

for (const name of readdirSync(sources).sort()) {
  const ending = Object.keys(makers).find((each) => name.endsWith(each))
  if (ending === undefined) continue
  const picture = join(docs, 'pictures', name.slice(0, -ending.length) + '.svg')
  const svg = await makers[ending](readFileSync(join(sources, name), 'utf8'), sources)
  if (!check) {
    writeFileSync(picture, svg)
  } else if (content(picture) !== svg) {
    console.error(`${picture} is not what diagrams/${name} makes`)
    process.exitCode = 1
  }
}

function content(file) {
  try {
    return readFileSync(file, 'utf8')
  } catch (error) {
    if (error.code === 'ENOENT') return undefined
    throw error
  }
}
