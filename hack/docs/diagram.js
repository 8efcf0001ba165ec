// Diagrams: DOT to SVG. A source says what there is and how it hangs together; how that looks is said here alone.
import { instance } from '@viz-js/viz'
import { themed } from './colours.js'

const font = 'system-ui, -apple-system, "Segoe UI", Helvetica, Arial, sans-serif'
const look = {
  graphAttributes: { fontname: 'Helvetica', fontsize: 13, labeljust: 'l', pad: 0.2, nodesep: 0.3, ranksep: 0.5 },
  nodeAttributes: { fontname: 'Helvetica', fontsize: 13, shape: 'box', style: 'rounded,filled', margin: '0.22,0.08' },
  edgeAttributes: { fontname: 'Helvetica', fontsize: 11, arrowsize: 0.7 },
}
// The classes that a source may give to a node or a cluster: class=ours.
const classes = ['ours', 'coder', 'kube', 'bad']

export async function diagram(source) {
  const viz = await instance()
  const drawn = viz.renderString(source, { format: 'svg', ...look })
  return drawn
    .slice(drawn.indexOf('<svg'))
    .replaceAll(/<!--[^]*?-->\n/g, '')
    .replaceAll(/ font-family="[^"]*"/g, '')
    .replace(/<svg [^]*?>/, (tag) => tag + themed(rules))
}

function rules(colours) {
  return [
    `text { font-family: ${font}; fill: ${colours.text} }`,
    `.edge text { fill: ${colours.quiet} }`,
    `.graph > polygon { fill: ${colours.ground} }`,
    `.cluster > * { stroke: ${colours.frame} } .cluster > text { stroke: none; fill: ${colours.quiet} }`,
    `${shapes('.node')} { fill: ${colours.plain}; stroke: ${colours.quiet} }`,
    `.edge > path { stroke: ${colours.quiet} } .edge > polygon { fill: ${colours.quiet}; stroke: ${colours.quiet} }`,
    ...classes.map((name) => `${shapes('.node.' + name)} { fill: ${colours[name]} }`),
  ].join(' ')
}

function shapes(node) {
  return ['path', 'polygon', 'ellipse'].map((shape) => `${node} > ${shape}`).join(', ')
}
