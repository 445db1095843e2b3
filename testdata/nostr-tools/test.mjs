// The relay as nostr-tools sees it. The environment variable TALON_URL says where
// it is, such as ws://127.0.0.1:7334.
import assert from 'node:assert/strict'
import { after, test as nodeTest } from 'node:test'
import WebSocket from 'ws'

import { fetchRelayInformation, useFetchImplementation } from 'nostr-tools/nip11'
import { finalizeEvent, generateSecretKey, getPublicKey } from 'nostr-tools/pure'
import { Relay, useWebSocketImplementation } from 'nostr-tools/relay'

// The package holds its negentropy client, but does not export it.
const { NegentropyStorageVector, NegentropySync } = await import(new URL('node_modules/nostr-tools/lib/esm/nip77.js', import.meta.url))

const url = process.env.TALON_URL
assert.ok(url, 'TALON_URL is not set')

const now = () => Math.floor(Date.now() / 1000)

// test bounds each test: an answer that never comes is a failure, not a wait.
const test = (name, fn) => nodeTest(name, { timeout: 20_000 }, fn)

// Every connection ends after the tests, whatever became of them: an open one
// would keep the process alive.
const sockets = []
class Socket extends WebSocket {
  constructor(...args) {
    super(...args, { handshakeTimeout: 10_000 })
    sockets.push(this)
  }
}
useWebSocketImplementation(Socket)
after(() => sockets.forEach(socket => socket.terminate()))

// connect returns a connection that waits for EOSE, and does not make one up.
async function connect() {
  const relay = await Relay.connect(url)
  relay.baseEoseTimeout = 60_000
  return relay
}

function sign(key, template) {
  return finalizeEvent({ kind: 1, created_at: now(), tags: [], content: '', ...template }, key)
}

// stored resolves to what the relay answers before EOSE.
function stored(relay, filter) {
  return new Promise((resolve, reject) => {
    const events = []
    const sub = relay.subscribe([filter], {
      onevent: event => events.push(event),
      oneose: () => {
        resolve(events)
        sub.close() // calls onclose
      },
      onclose: reason => reject(new Error(reason)),
      oninvalidevent: event => reject(new Error('invalid event: ' + JSON.stringify(event))),
    })
  })
}

const relay = await connect()

test('publish, and read it back as it was sent', async () => {
  const event = sign(generateSecretKey(), { content: 'línea\n"quoted" \u{1f9a9}', tags: [['t', 'talon'], ['e', '0'.repeat(64), '']] })
  await relay.publish(event)
  const [got, ...more] = await stored(relay, { ids: [event.id] })
  assert.deepEqual(more, [])
  for (const field of ['id', 'pubkey', 'created_at', 'kind', 'tags', 'content', 'sig']) {
    assert.deepEqual(got[field], event[field], field)
  }
})

test('an event that is here already is a duplicate, not an error', async () => {
  const event = sign(generateSecretKey(), {})
  await relay.publish(event)
  assert.match(await relay.publish(event), /^duplicate: /)
})

test('an event whose signature is wrong is refused with a reason', async () => {
  const event = { ...sign(generateSecretKey(), {}) }
  event.sig = event.sig.replace(/^./, c => (c === '0' ? '1' : '0'))
  await assert.rejects(relay.publish(event), /invalid: /)
})

test('a subscription hears what is published later, once', async () => {
  const key = generateSecretKey()
  const reader = await connect()
  const heard = []
  let eose, enough
  const ready = new Promise(resolve => (eose = resolve))
  const all = new Promise(resolve => (enough = resolve))
  const before = sign(key, { content: 'before' })
  await relay.publish(before)
  reader.subscribe([{ authors: [getPublicKey(key)] }], {
    onevent: event => {
      heard.push(event.id)
      if (heard.length === 11) enough()
    },
    oneose: eose,
  })
  await ready
  const events = Array.from({ length: 10 }, (_, i) => sign(key, { content: String(i) }))
  for (const event of events) await relay.publish(event)
  await relay.publish(sign(generateSecretKey(), { content: 'of somebody else' }))
  await all
  assert.deepEqual(heard, [before.id, ...events.map(event => event.id)])
})

test('count is exact', async () => {
  const key = generateSecretKey()
  for (let i = 0; i < 7; i++) await relay.publish(sign(key, { kind: i % 2 ? 1 : 1111, content: String(i) }))
  assert.equal(await relay.count([{ authors: [getPublicKey(key)] }], {}), 7)
  assert.equal(await relay.count([{ authors: [getPublicKey(key)], kinds: [1] }], {}), 3)
})

test('what its author deleted is gone and cannot return', async () => {
  const key = generateSecretKey()
  const event = sign(key, { content: 'a mistake' })
  const other = sign(key, { content: 'not one' })
  await relay.publish(event)
  await relay.publish(other)
  await relay.publish(sign(generateSecretKey(), { kind: 5, tags: [['e', other.id]] }))
  await relay.publish(sign(key, { kind: 5, tags: [['e', event.id]] }))
  assert.deepEqual((await stored(relay, { ids: [event.id, other.id] })).map(e => e.id), [other.id])
  await assert.rejects(relay.publish(event), /: /)
})

test('the newest version of an address is the only one', async () => {
  const key = generateSecretKey()
  const at = now()
  const version = (n, d) => sign(key, { kind: 30023, created_at: at + n, tags: [['d', d]], content: String(n) })
  for (const event of [version(1, 'a'), version(3, 'a'), version(0, 'b')]) await relay.publish(event)
  await assert.rejects(relay.publish(version(2, 'a')), /replaced: have newer event/)
  const got = await stored(relay, { authors: [getPublicKey(key)], kinds: [30023], '#d': ['a'] })
  assert.deepEqual(got.map(e => e.content), ['3'])
})

test('pages backwards, many events in a second included', async () => {
  const key = generateSecretKey()
  const at = now() - 1000
  const sent = Array.from({ length: 120 }, (_, i) => sign(key, { created_at: at + Math.floor(i / 6), content: String(i) }))
  await Promise.all(sent.map(event => relay.publish(event)))
  const seen = new Map()
  for (let until = now(); ; ) {
    const page = await stored(relay, { authors: [getPublicKey(key)], until, limit: 25 })
    const fresh = page.filter(event => !seen.has(event.id))
    if (fresh.length === 0) break
    for (let i = 1; i < page.length; i++) {
      const [a, b] = [page[i - 1], page[i]]
      assert.ok(a.created_at > b.created_at || (a.created_at === b.created_at && a.id < b.id), 'newest first, ties by lowest id')
    }
    for (const event of fresh) seen.set(event.id, event)
    until = page.at(-1).created_at
  }
  assert.equal(seen.size, sent.length)
})

test('a protected event needs its author to authenticate', async () => {
  const key = generateSecretKey()
  const client = await connect()
  const event = sign(key, { tags: [['-']], content: 'protected' })
  await assert.rejects(client.publish(event), /auth-required: /)
  await client.auth(async template => finalizeEvent(template, key))
  await client.publish(event)
  assert.equal((await stored(client, { ids: [event.id] })).length, 1)
  await assert.rejects(client.publish(sign(generateSecretKey(), { tags: [['-']] })), /restricted: /)
})

test('negentropy finds what either side lacks', async () => {
  const key = generateSecretKey()
  const filter = { authors: [getPublicKey(key)] }
  const events = Array.from({ length: 300 }, (_, i) => sign(key, { created_at: now() - i, content: String(i) }))
  const ours = events.slice(0, 200)
  const theirs = events.slice(100)
  await Promise.all(theirs.map(event => relay.publish(event)))
  const storage = new NegentropyStorageVector()
  for (const event of ours) storage.insert(event.created_at, event.id)
  storage.seal()
  const have = new Set()
  const need = new Set()
  await new Promise((resolve, reject) => {
    const sync = new NegentropySync(relay, storage, filter, {
      onhave: id => have.add(id),
      onneed: id => need.add(id),
      onclose: reason => (reason ? reject(new Error(reason)) : resolve()),
    })
    sync.start().catch(reject)
  })
  assert.deepEqual(have, new Set(events.slice(0, 100).map(e => e.id)))
  assert.deepEqual(need, new Set(events.slice(200).map(e => e.id)))
})

test('the relay information document', async () => {
  useFetchImplementation(fetch)
  const info = await fetchRelayInformation(url)
  for (const nip of [1, 9, 11, 40, 42, 45, 70, 77]) assert.ok(info.supported_nips.includes(nip), 'NIP-' + nip)
})
