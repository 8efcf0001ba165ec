// plain is a plugin of markdown-it: pages are Markdown, and <name> in their text is a name, not a component of the site.
// Line breaks in tables stay what they are, and comments stay out.
export function plain(md) {
  md.renderer.rules.html_inline = (tokens, index) => text(tokens[index].content)
  md.renderer.rules.html_block = (tokens, index) => text(tokens[index].content)

  function text(html) {
    if (/^<br *\/?>$/.test(html)) return '<br>'
    return html.startsWith('<!--') ? '' : `<span v-pre>${md.utils.escapeHtml(html)}</span>`
  }
}
