// Signs in to the pages of private repositories in Chromium: with a signer in the browser (NIP-07), which the test
// stands in for, and by a link. SIGNIN_PROXY is the server, SIGNIN_PAGE the page of a repository, SIGNIN_LINKS two links
// (JSON) of a reader and of a stranger, SIGNIN_SIGNER an address that signs the event that is sent to it.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'

import { chromium } from 'playwright-core'

const { SIGNIN_PROXY: proxy, SIGNIN_PAGE: url, SIGNIN_SIGNER: signer, SIGNIN_TEXT: text } = process.env
const links = JSON.parse(process.env.SIGNIN_LINKS)

const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium', args: ['--no-sandbox', '--disable-dev-shm-usage'], proxy: { server: proxy },
})
after(() => browser.close())

// open opens a page in a browser of its own, in which window.nostr signs if there is a signer.
async function open(address, withSigner) {
  const context = await browser.newContext()
  if (withSigner) {
    await context.exposeFunction('signOutside', async event => (await fetch(signer, { method: 'POST', body: JSON.stringify(event) })).json())
    await context.addInitScript(() => { window.nostr = { signEvent: event => window.signOutside(event) } })
  }
  const page = await context.newPage()
  page.faults = []
  page.on('pageerror', e => page.faults.push(String(e)))
  const answer = await page.goto(address, { waitUntil: 'load' })
  return { context, page, status: answer.status() }
}

async function shows(page) {
  await page.waitForFunction(text => document.body.innerText.includes(text), text, { timeout: 30_000 })
}

test('a browser without a signer', async () => {
  const { context, page, status } = await open(url, false)
  assert.equal(status, 401)
  assert.ok(!(await page.content()).includes(text))
  assert.ok(await page.locator('button').first().isDisabled())
  await context.close()
})

test('a signer in the browser (NIP-07)', async () => {
  const { context, page, status } = await open(url, true)
  assert.equal(status, 401)
  await page.locator('button:enabled').first().click({ timeout: 30_000 })
  await shows(page)
  const cookies = await context.cookies()
  assert.deepEqual(cookies.map(c => [c.httpOnly, c.path]), [[true, '/auth/']])
  assert.equal(await page.evaluate(() => document.cookie), '')
  // Links of the page stay below /auth/.
  await page.locator('a[href$="/issues"]').first().click()
  await page.waitForURL('**/issues')
  assert.ok(page.url().includes('/auth/'))
  assert.deepEqual(page.faults, [])
  await context.close()
})

test('a link', async () => {
  const { context, page } = await open(links.reader, false)
  await shows(page)
  assert.ok(!page.url().includes('#'), `the address still has the event: ${page.url()}`)
  assert.deepEqual(page.faults, [])
  await context.close()
  // It is good once.
  const again = await open(links.reader, false)
  await again.page.waitForTimeout(1000)
  assert.ok(!(await again.page.content()).includes(text))
  await again.context.close()
})

test('a stranger', async () => {
  const { context, page } = await open(links.stranger, false)
  await page.waitForFunction(() => !document.querySelector('button'), null, { timeout: 30_000 })
  assert.ok(!(await page.content()).includes(text))
  await context.close()
})
