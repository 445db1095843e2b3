// A GRASP server as nostr-tools and plain git see it: announce, sign a state, push,
// clone, open an issue. TALON_URL says where the relay is.
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import WebSocket from 'ws'

import { npubEncode } from 'nostr-tools/nip19'
import { finalizeEvent, generateSecretKey, getPublicKey } from 'nostr-tools/pure'
import { Relay, useWebSocketImplementation } from 'nostr-tools/relay'

const url = process.env.TALON_URL
assert.ok(url, 'TALON_URL is not set')
const web = url.replace(/^ws/, 'http')

useWebSocketImplementation(WebSocket)
const work = mkdtempSync(join(tmpdir(), 'talon-grasp-'))
const relay = await Relay.connect(url)
relay.baseEoseTimeout = 120_000 // EOSE is the relay's to say: the client must not make one up
after(() => {
  relay.close()
  rmSync(work, { recursive: true })
})

const key = generateSecretKey()
const pubkey = getPublicKey(key)
const clone = `${web}/${npubEncode(pubkey)}/demo.git`

const sign = (kind, tags, content = '') => finalizeEvent({ kind, tags, content, created_at: Math.floor(Date.now() / 1000) }, key)

const git = (...args) =>
  execFileSync('git', ['-c', 'user.name=a', '-c', 'user.email=a@example.com', ...args], {
    cwd: work,
    encoding: 'utf8',
    timeout: 30_000,
    stdio: ['ignore', 'pipe', 'ignore'],
    env: { ...process.env, GIT_CONFIG_GLOBAL: '/dev/null', GIT_CONFIG_NOSYSTEM: '1', GIT_TERMINAL_PROMPT: '0' },
  }).trim()

function stored(filter) {
  return new Promise((resolve, reject) => {
    const events = []
    const sub = relay.subscribe([filter], {
      onevent: event => events.push(event),
      oneose: () => {
        resolve(events)
        sub.close()
      },
      onclose: reason => reject(new Error(reason)),
    })
  })
}

test('announce, push and clone', { timeout: 60_000 }, async () => {
  const announcement = sign(30617, [['d', 'demo'], ['name', 'Demo'], ['clone', clone], ['relays', url]])
  assert.match(await relay.publish(announcement), /^purgatory: /)
  git('init', '-q', '-b', 'main', '.')
  git('commit', '-q', '--allow-empty', '-m', 'one')
  const commit = git('rev-parse', 'HEAD')
  assert.throws(() => git('push', '-q', clone, 'main'), 'a push that nobody has signed')
  assert.deepEqual(await stored({ kinds: [30617], authors: [pubkey] }), [], 'what waits is not served')

  const state = sign(30618, [['d', 'demo'], ['refs/heads/main', commit], ['HEAD', 'ref: refs/heads/main']])
  assert.match(await relay.publish(state), /^purgatory: /)
  git('push', '-q', clone, 'main')
  const served = await stored({ kinds: [30617, 30618], authors: [pubkey] })
  assert.deepEqual(served.map(e => e.id).sort(), [announcement.id, state.id].sort())
  assert.equal(git('ls-remote', clone, 'HEAD').slice(0, 40), commit)
  git('clone', '-q', clone, 'copy')
  assert.equal(git('-C', 'copy', 'rev-parse', 'HEAD'), commit)
})

test('an issue is on the page, an orphan is refused', { timeout: 30_000 }, async () => {
  await relay.publish(sign(1621, [['a', `30617:${pubkey}:demo`], ['subject', 'It <b>crashes</b>']], 'When I press "q".'))
  const page = await fetch(clone)
  assert.equal(page.status, 200)
  assert.match(await page.text(), /It &lt;b&gt;crashes&lt;\/b&gt;/)
  await assert.rejects(relay.publish(sign(1621, [['a', `30617:${pubkey}:other`]], 'Where?')), /^Error: blocked: /)
})

test('NIP-11 says what is supported, to any page', async () => {
  const answer = await fetch(web, { headers: { Accept: 'application/nostr+json' } })
  assert.equal(answer.headers.get('access-control-allow-origin'), '*')
  const about = await answer.json()
  assert.deepEqual(about.supported_grasps, ['GRASP-01', 'GRASP-02', 'GRASP-06'])
  assert.ok(about.supported_nips.includes(34))
  assert.ok(about.repo_acceptance_criteria)
})
