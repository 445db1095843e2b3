// Uses a GRASP server through gitworkshop, as a maintainer does. GITWORKSHOP says where both are (JSON): app is the URL
// of gitworkshop, tls the address of the server for the name domain; key, pubkey and npub are the maintainer's, who has
// the repository nest with the pull request pull. Screenshots go into GITWORKSHOP_SHOTS, if that is set.
import assert from 'node:assert/strict'
import { join } from 'node:path'
import { after, test } from 'node:test'

import { chromium } from 'playwright-core'

const at = JSON.parse(process.env.GITWORKSHOP)
const shots = process.env.GITWORKSHOP_SHOTS
const patience = 120_000

const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
  args: ['--no-sandbox', '--disable-dev-shm-usage', '--ignore-certificate-errors',
    // Nobody else is reached: every other name has no address.
    `--host-resolver-rules=MAP ${at.domain}:443 ${at.tls}, MAP * ~NOTFOUND, EXCLUDE 127.0.0.1`],
})
after(() => browser.close())

// What the server refused, and requests to it that failed.
const faults = []
const here = url => new URL(url).hostname === at.domain

// somebody opens a browser of their own. With accounts they are signed in.
async function somebody(accounts) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 1000 }, ignoreHTTPSErrors: true })
  await context.addInitScript(({ domain, accounts }) => {
    const relays = JSON.stringify([`wss://${domain}`])
    for (const setting of ['extraRelays', 'lookupRelays', 'gitIndexRelays', 'defaultNostrConnectRelays']) localStorage.setItem(setting, relays)
    localStorage.setItem('accounts', JSON.stringify(accounts))
    localStorage.setItem('active-account', accounts[0]?.id ?? '')
  }, { domain: at.domain, accounts })
  context.on('requestfailed', r => {
    // A page that goes away, or that has another answer already, gives up on requests.
    if (here(r.url()) && r.failure()?.errorText !== 'net::ERR_ABORTED') faults.push(`${r.method()} ${r.url()}: ${r.failure()?.errorText}`)
  })
  context.on('response', r => here(r.url()) && r.status() >= 400 && faults.push(`${r.request().method()} ${r.url()}: status ${r.status()}`))
  const page = await context.newPage()
  page.setDefaultTimeout(patience)
  page.on('websocket', socket => here(socket.url()) && listen(socket))
  return page
}

// listen notes what a relay refuses.
function listen(socket) {
  const kinds = new Map()
  socket.on('socketerror', e => faults.push(`${socket.url()}: ${e}`))
  socket.on('framesent', ({ payload }) => {
    const [verb, event] = JSON.parse(payload)
    if (verb === 'EVENT') kinds.set(event.id, event.kind)
  })
  socket.on('framereceived', ({ payload }) => {
    const [verb, id, ok, reason] = JSON.parse(payload)
    if (verb === 'OK' && !ok) faults.push(`an event of kind ${kinds.get(id)}: ${reason}`)
    if (verb === 'NOTICE' || verb === 'CLOSED') faults.push(payload)
  })
}

// The page of the maintainer.
const page = await somebody([{ type: 'nsec', id: 'test', pubkey: at.pubkey, signer: { key: at.key } }])

let shot = 0
function step(name, f) {
  test(name, { timeout: 2 * patience }, async () => {
    try {
      await f()
    } finally {
      if (shots) await page.screenshot({ path: join(shots, `gitworkshop-${++shot}-${name.replaceAll(' ', '-')}.png`) })
    }
    assert.deepEqual(faults.splice(0), [])
  })
}

const repository = `${at.app}/${at.npub}/${at.domain}/nest`
const see = (text, on = page) => on.getByText(text).first().waitFor()

step('open the repository', async () => {
  await page.goto(repository)
  await see('It is made of twigs.')
})

step('browse its files', async () => {
  await page.getByRole('link', { name: 'src' }).first().click()
  await page.getByRole('link', { name: 'main.c' }).first().click()
  await see('return 0;')
  await page.goto(`${repository}/commits`)
  await see('TestGitworkshop')
})

step('create an issue', async () => {
  await page.goto(`${repository}/issues`)
  await page.getByRole('button', { name: 'New Issue' }).first().click()
  await page.getByLabel('Title').fill('Rain comes in')
  await page.getByPlaceholder('Describe the issue').fill('Every *night*.')
  await page.getByRole('button', { name: /create issue|submit/i }).click()
  await see('Rain comes in')
})

step('comment on it', async () => {
  await page.getByRole('link', { name: /Rain comes in/ }).first().click()
  await page.getByPlaceholder('Leave a comment...').fill('More twigs, then.')
  await page.getByRole('button', { name: 'Comment', exact: true }).click()
  await see('Comment posted')
  await page.reload()
  await see('More twigs, then.')
})

step('merge a pull request', async () => {
  await page.goto(`${repository}/prs`)
  await page.getByRole('link', { name: /Add moss/ }).first().click()
  await see('Moss is soft.')
  await page.getByRole('button', { name: 'Merge', exact: true }).click()
  await page.getByRole('button', { name: 'Confirm merge' }).click()
  await see('Done')
})

step('see the merge as a visitor', async () => {
  const visitor = await somebody([])
  await visitor.goto(repository)
  await visitor.getByRole('link', { name: 'src' }).first().click()
  await see('moss.c', visitor)
  await visitor.context().close()
})

step('create a repository', async () => {
  await page.goto(at.app)
  await page.locator('header').getByRole('button').filter({ has: page.locator('svg.lucide-plus') }).first().click()
  await page.getByLabel('Repository name').fill('fresh eggs')
  const dialog = page.getByRole('dialog')
  await dialog.getByRole('button', { name: /servers|relay\.ngit\.dev/ }).first().click()
  if (await dialog.getByText(at.domain, { exact: true }).count() === 0) {
    await dialog.getByPlaceholder('relay.example.com').fill(at.domain)
    await dialog.getByPlaceholder('relay.example.com').press('Enter')
    await dialog.locator(`[id="server-${at.domain}"]`).waitFor()
  }
  for (const box of await dialog.getByRole('checkbox').all()) {
    const id = await box.getAttribute('id')
    if (id.startsWith('server-') && id !== `server-${at.domain}` && await box.isChecked()) await box.click()
  }
  await dialog.getByRole('button', { name: 'Create Repository' }).click()
  await dialog.getByRole('button', { name: 'View Repository' }).click()
  await see('README.md')
})
