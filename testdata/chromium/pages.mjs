// Opens pages of a server in Chromium, in sizes and themes, and follows their links. PAGES_URL says where the server
// is, PAGES_PATHS which pages to open (JSON), PAGES_ALL=1 that all sizes and themes count. A screenshot of each page
// goes into the folder PAGES_SHOTS, if that is set.
import assert from 'node:assert/strict'
import fs from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { after, test } from 'node:test'

import { chromium } from 'playwright-core'

const url = process.env.PAGES_URL
const paths = JSON.parse(process.env.PAGES_PATHS)
const all = process.env.PAGES_ALL === '1'
const shots = process.env.PAGES_SHOTS
const axe = fs.readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')

const desktop = { width: 1280, height: 900 }, phone = { width: 360, height: 740 }
const looks = all
  ? [desktop, phone].flatMap(viewport => ['light', 'dark'].map(colorScheme => ({ viewport, colorScheme })))
  : [{ viewport: phone, colorScheme: 'dark' }]

const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium', args: ['--no-sandbox', '--disable-dev-shm-usage'],
})
after(() => browser.close())

// open opens a page, and collects what the browser complains about.
async function open(context, path) {
  const page = await context.newPage()
  const faults = []
  page.on('console', m => ['error', 'warning'].includes(m.type()) && faults.push(m.text()))
  page.on('pageerror', e => faults.push(String(e)))
  page.on('dialog', d => { faults.push(`a dialog: ${d.message()}`); d.dismiss() })
  page.on('requestfailed', r => faults.push(`${r.url()}: ${r.failure()?.errorText}`))
  page.on('request', r => r.url().startsWith(url) || r.url().startsWith('data:') || faults.push(`asks ${r.url()}`))
  const answer = await page.goto(url + path, { waitUntil: 'load' })
  return { page, faults, status: answer.status() }
}

for (const look of looks) {
  test(`${look.viewport.width} pixels, ${look.colorScheme}`, async t => {
    const context = await browser.newContext(look)
    for (const path of paths) {
      await t.test(path, async () => {
        const { page, faults, status } = await open(context, path)
        assert.equal(status, 200)
        assert.deepEqual(faults, [])
        const width = await page.evaluate(() => document.documentElement.scrollWidth)
        assert.ok(width <= look.viewport.width, `the page is ${width} pixels wide`)
        await page.evaluate(axe)
        const { violations } = await page.evaluate(() => axe.run(document, { resultTypes: ['violations'] }))
        assert.deepEqual(violations.map(v => `${v.id}: ${v.help}: ${v.nodes.slice(0, 3).map(n => n.html).join(' ')}`), [])
        // The keyboard reaches the first link, and shows that.
        await page.keyboard.press('Tab')
        const outline = await page.evaluate(() => getComputedStyle(document.activeElement).outlineStyle)
        assert.notEqual(outline, 'none', 'the focus is not visible')
        if (shots) {
          const name = `${look.viewport.width}-${look.colorScheme}${path.replace(/[^a-z0-9]+/gi, '-')}`.slice(0, 120)
          await page.screenshot({ path: join(shots, `${name}.png`), fullPage: true })
        }
        await page.close()
      })
    }
    await context.close()
  })
}

test('no link is dead', async () => {
  const context = await browser.newContext({ viewport: desktop })
  const page = await context.newPage()
  const most = all ? 400 : 20
  const from = new Map(paths.map(p => [p, 'the list of pages']))
  const queue = [...paths], dead = []
  let seen = 0
  while (queue.length > 0 && seen < most) {
    const path = queue.shift()
    seen++
    const answer = await context.request.get(url + path, { maxRedirects: 5, failOnStatusCode: false })
    if (answer.status() >= 400) dead.push(`${path}: ${answer.status()}, linked by ${from.get(path)}`)
    if (!(answer.headers()['content-type'] ?? '').startsWith('text/html')) continue
    await page.setContent('') // no scripts, no loading: the links alone count
    const { hrefs, ids } = await page.evaluate(html => {
      const d = new DOMParser().parseFromString(html, 'text/html')
      return {
        hrefs: [...d.querySelectorAll('a[href],link[rel=alternate]')].map(a => a.getAttribute('href')),
        ids: [...d.querySelectorAll('[id]')].map(e => e.id),
      }
    }, await answer.text())
    for (const href of hrefs) {
      if (href.startsWith('#')) {
        if (!ids.includes(decodeURIComponent(href.slice(1)))) dead.push(`${path}${href} is not on the page`)
        continue
      }
      const to = new URL(href, answer.url())
      if (to.origin !== url) continue
      const next = to.pathname + to.search
      if (!from.has(next)) {
        from.set(next, path)
        queue.push(next)
      }
    }
  }
  assert.deepEqual(dead, [])
  assert.ok(seen >= paths.length)
  await context.close()
})
