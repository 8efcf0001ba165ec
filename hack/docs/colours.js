// The colours of the pictures, for readers with a light and with a dark screen. A picture brings its own ground, so that it can
// be read wherever it stands.
export const light = { ground: '#ffffff', frame: '#d0d7de', text: '#1f2328', quiet: '#59636e', plain: '#f6f8fa', ours: '#ddf4ff', coder: '#dafbe1', kube: '#fff8c5', bad: '#ffebe9', yardstick: '#afb8c1', measure: '#0969da' }
export const dark = { ground: '#0d1117', frame: '#3d444d', text: '#f0f6fc', quiet: '#9198a1', plain: '#212830', ours: '#0c2d6b', coder: '#033a16', kube: '#4b2900', bad: '#67060c', yardstick: '#656c76', measure: '#4493f8' }

// themed returns a style element: rules is a function from colours to rules of CSS.
export function themed(rules) {
  return `<style>${rules(light)} @media (prefers-color-scheme: dark) { ${rules(dark)} }</style>`
}
