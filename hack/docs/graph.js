// Graphs: Vega-Lite to SVG. A source says which figures are shown and how; the colours are said here alone.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import * as vega from 'vega'
import { compile } from 'vega-lite'
import { light, themed } from './colours.js'

// Colours of the drawing are replaced by rules for each of them, so that they follow the reader's screen.
const config = {
  background: light.ground,
  font: 'system-ui, Helvetica, Arial, sans-serif',
  padding: 12,
  view: { stroke: null },
  axis: { labelColor: light.text, titleColor: light.quiet, gridColor: light.frame, domainColor: light.frame, tickColor: light.frame, labelLimit: 320, labelFontSize: 12, titleFontWeight: 'normal' },
  bar: { color: light.measure },
  rule: { color: light.quiet },
  text: { color: light.text, fontSize: 12 },
}

export async function graph(source, directory) {
  const spec = JSON.parse(source)
  spec.data = { values: JSON.parse(readFileSync(join(directory, spec.data.url), 'utf8'))[spec.data.format.property] }
  const view = new vega.View(vega.parse(compile({ ...spec, config }).spec), { renderer: 'none' })
  const svg = await view.toSVG()
  view.finalize()
  return svg.replace(/<svg [^>]*>/, (tag) => tag + themed(rules)) + '\n'
}

function rules(colours) {
  return Object.entries(light)
    .map(([name, colour]) => `[fill="${colour}"] { fill: ${colours[name]} } [stroke="${colour}"] { stroke: ${colours[name]} }`)
    .join(' ')
}
