// The site of the documentation, made by `make docs`. VitePress ends with an error where a link leads to no page.
import { fileURLToPath } from 'node:url'
import { plain } from './html.js'
import { anchor, outside } from './links.js'
import { sidebar } from './sidebar.js'

const docs = fileURLToPath(new URL('..', import.meta.url))

export default {
  title: 'coder-k8s',
  description: 'Coder on Kubernetes, with kubectl and GitOps alone',
  lang: 'en',
  // Where the site does not stand at the top of its host: DOCS_BASE=/coder-k8s/ make docs
  base: process.env.DOCS_BASE ?? '/',
  markdown: {
    anchor: { slugify: anchor },
    config: (md) => md.use(outside).use(plain),
  },
  themeConfig: {
    nav: [
      { text: 'Get started', link: '/tutorials/first-coder' },
      { text: 'Install', link: '/how-to/choose-an-installation' },
      { text: 'Troubleshoot', link: '/how-to/troubleshoot' },
      { text: 'All pages', link: '/contents' },
    ],
    sidebar: sidebar(docs),
    outline: [2, 3],
    search: { provider: 'local' },
    socialLinks: [{ icon: 'github', link: 'https://github.com/coder-k8s/coder-k8s' }],
  },
}
