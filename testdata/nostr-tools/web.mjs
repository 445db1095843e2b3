// A web client of git on nostr, as gitworkshop is one: nostr-tools over a websocket and
// isomorphic-git with the requests that a page makes, preflights included. TALON_URL says
// where the GRASP server is.
import assert from 'node:assert/strict'
import fs from 'node:fs'
import http from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test as nodeTest } from 'node:test'
import WebSocket from 'ws'

import git from 'isomorphic-git'
import { npubEncode } from 'nostr-tools/nip19'
import { finalizeEvent, generateSecretKey, getPublicKey } from 'nostr-tools/pure'
import { Relay, useWebSocketImplementation } from 'nostr-tools/relay'

const url = process.env.TALON_URL
assert.ok(url, 'TALON_URL is not set')
const web = url.replace(/^ws/, 'http')

useWebSocketImplementation(WebSocket)
const work = fs.mkdtempSync(join(tmpdir(), 'talon-web-'))
const relay = await Relay.connect(url)
relay.baseEoseTimeout = 120_000 // EOSE is the relay's to say: the client must not make one up
after(() => {
  relay.close()
  fs.rmSync(work, { recursive: true })
})

const test = (name, fn) => nodeTest(name, { timeout: 60_000 }, fn)
const origin = 'https://page.example'
const author = { name: 'a', email: 'a@example.com' }

// somebody signs events, each a second later than the one before.
function somebody() {
  const key = generateSecretKey()
  let now = Math.floor(Date.now() / 1000) - 100
  const sign = (kind, tags, content = '') => finalizeEvent({ kind, tags, content, created_at: ++now }, key)
  return { pubkey: getPublicKey(key), sign, publish: (...event) => relay.publish(sign(...event)) }
}

const owner = somebody(), visitor = somebody()
const address = `30617:${owner.pubkey}:web`
const clone = `${web}/${npubEncode(owner.pubkey)}/web.git`
const dir = join(work, 'repository')

function stored(filter, on = relay) {
  return new Promise((resolve, reject) => {
    const events = []
    const sub = on.subscribe([filter], {
      onevent: event => events.push(event),
      oneose: () => {
        resolve(events)
        sub.close()
      },
      onclose: reason => reject(new Error(reason)),
    })
  })
}

// page is fetch with the rules of a browser for a page of another origin: without its
// leave, nothing is sent or read.
async function page(address, options = {}) {
  const headers = new Headers(options.headers), asks = [...headers.keys()].filter(name => name !== 'accept')
  if (asks.length > 0 || (options.method ?? 'GET') !== 'GET') {
    const preflight = await fetch(address, {
      method: 'OPTIONS',
      headers: { Origin: origin, 'Access-Control-Request-Method': options.method ?? 'GET', 'Access-Control-Request-Headers': asks.join(',') },
    })
    assert.equal(preflight.status, 204)
    const may = name => preflight.headers.get(`access-control-allow-${name}`).toLowerCase().split(/, */)
    assert.ok(may('methods').includes((options.method ?? 'GET').toLowerCase()), 'the method is not allowed')
    for (const name of asks) assert.ok(may('headers').includes(name), `the header ${name} is not allowed`)
    assert.ok(Number(preflight.headers.get('access-control-max-age')) >= 3600, 'a page asks again before each request')
  }
  const answer = await fetch(address, { ...options, headers: { ...Object.fromEntries(headers), Origin: origin } })
  assert.equal(answer.headers.get('access-control-allow-origin'), '*')
  return answer
}

// client is what isomorphic-git sends its requests by.
const client = {
  async request({ url, method, headers, body }) {
    const parts = []
    if (body) for await (const part of body) parts.push(part)
    const answer = await page(url, { method, headers, body: parts.length > 0 ? new Blob(parts) : undefined })
    return {
      url: answer.url, method, statusCode: answer.status, statusMessage: answer.statusText,
      headers: Object.fromEntries(answer.headers), body: (async function* () { yield new Uint8Array(await answer.arrayBuffer()) })(),
    }
  },
}

const push = (ref, options) => git.push({ fs, http: client, dir, url: clone, ref, remoteRef: ref, ...options })

async function commit(content, parent) {
  fs.writeFileSync(join(dir, 'file'), content)
  await git.add({ fs, dir, filepath: 'file' })
  return git.commit({ fs, dir, message: content, author, parent })
}

const state = refs => owner.publish(30618, [['d', 'web'], ...Object.entries(refs).map(([ref, oid]) => [`refs/heads/${ref}`, oid]), ['HEAD', 'ref: refs/heads/main']])

test('what is stored is told before anybody asks for AUTH', async () => {
  const socket = new WebSocket(url)
  const verbs = []
  await new Promise((resolve, reject) => {
    socket.on('open', () => socket.send('["REQ","a",{"kinds":[30617],"limit":1}]'))
    socket.on('error', reject)
    socket.on('message', text => {
      verbs.push(JSON.parse(text)[0])
      if (verbs.at(-1) === 'EOSE') resolve()
    })
  })
  socket.close()
  assert.deepEqual(verbs.filter(verb => verb !== 'EVENT'), ['EOSE'])
})

test('create a repository and push to it', async t => {
  await git.init({ fs, dir, defaultBranch: 'main' })
  const first = await commit('one')
  assert.match(await owner.publish(30617, [['d', 'web'], ['name', 'Web'], ['clone', clone], ['relays', url]]), /^purgatory: /)
  assert.match(await state({ main: first }), /^purgatory: /)
  const began = performance.now()
  assert.equal((await push('main')).ok, true)
  while ((await stored({ kinds: [30617], authors: [owner.pubkey] })).length === 0);
  t.diagnostic(`the first push and its announcement: ${Math.round(performance.now() - began)} ms`)
  assert.equal((await git.listServerRefs({ http: client, url: clone, prefix: 'refs/heads/' }))[0].oid, first)
})

test('a profile is sent before the first issue', async () => {
  const profile = visitor.sign(0, [], '{"name":"visitor"}'), relays = visitor.sign(10002, [['r', url]])
  await assert.rejects(relay.publish(profile), /blocked: /)
  await assert.rejects(relay.publish(relays), /blocked: /)
  const issue = visitor.sign(1621, [['a', address], ['subject', 'It crashes']], 'When I press "q".')
  await relay.publish(issue)
  await owner.publish(1111, [['E', issue.id], ['K', '1621'], ['e', issue.id], ['k', '1621']], 'I see.')
  assert.equal((await stored({ kinds: [1111], '#E': [issue.id] })).length, 1)
  const want = [profile.id, relays.id].sort()
  let got
  do got = (await stored({ kinds: [0, 10002], authors: [visitor.pubkey] })).map(event => event.id).sort()
  while (got.length < want.length)
  assert.deepEqual(got, want)
})

test('a pull request is merged on the page', async () => {
  const main = await git.resolveRef({ fs, dir, ref: 'main' })
  await git.branch({ fs, dir, ref: 'fix', checkout: true })
  const fix = await commit('fixed')
  const pull = visitor.sign(1618, [['a', address], ['c', fix], ['clone', clone], ['subject', 'Fix it']])
  assert.match(await relay.publish(pull), /^purgatory: /)
  assert.equal((await push('fix', { remoteRef: `refs/nostr/${pull.id}` })).ok, true)
  assert.equal((await stored({ ids: [pull.id] })).length, 1)

  const other = join(work, 'fetched')
  await git.init({ fs, dir: other, defaultBranch: 'main' })
  await git.addRemote({ fs, dir: other, remote: 'origin', url: clone })
  await git.fetch({ fs, http: client, dir: other, url: clone, ref: 'main', singleBranch: true })
  await git.fetch({ fs, http: client, dir: other, url: clone, remoteRef: `refs/nostr/${pull.id}`, singleBranch: true, tags: false })
  assert.equal((await git.readCommit({ fs, dir: other, oid: fix })).commit.parent[0], main)

  await git.checkout({ fs, dir, ref: 'main' })
  const merge = await commit('fixed', [main, fix])
  await state({ main: merge })
  assert.equal((await push('main')).ok, true)
  await owner.publish(1631, [['e', pull.id, '', 'root'], ['merge-commit', merge]])
  assert.equal((await git.listServerRefs({ http: client, url: clone, prefix: 'refs/heads/' }))[0].oid, merge)
})

test('a push without rights is refused in words that clients look for', async () => {
  await commit('mine')
  await assert.rejects(push('main'), error => {
    const told = JSON.stringify(error.data ?? {}) + error.message
    assert.match(told, /authorisation failed: /)
    return true
  })
})

// What follows is git's protocol as a page writes it by itself, without a side band for pushes.
const line = text => (text.length + 4).toString(16).padStart(4, '0') + text
const zero = '0'.repeat(40)

async function ask(service, body) {
  const answer = await page(`${clone}/git-${service}`, { method: 'POST', headers: { 'Content-Type': `application/x-git-${service}-request` }, body })
  return Buffer.from(await answer.arrayBuffer()).toString('latin1')
}

test('a page reads single objects', async () => {
  const refs = Buffer.from(await (await page(`${clone}/info/refs?service=git-upload-pack`)).arrayBuffer()).toString()
  const [, head, can] = refs.match(/([0-9a-f]{40}) HEAD\0(.*)\n/)
  for (const name of ['multi_ack_detailed', 'side-band-64k', 'shallow', 'filter', 'object-format=sha1']) assert.ok(can.split(' ').includes(name), name)
  const { object } = await git.readObject({ fs, dir, oid: head, format: 'parsed' })
  for (const [oid, filter] of [[head, 'tree:0'], [head, 'blob:none'], [object.tree]]) {
    const text = await ask('upload-pack', line(`want ${oid} ofs-delta no-progress multi_ack_detailed side-band-64k${filter ? ' filter' : ''} agent=page\n`) +
      line('deepen 1\n') + (filter ? line(`filter ${filter}\n`) : '') + '0000' + line('done\n'))
    assert.match(text, /PACK/, `${oid} ${filter}`)
  }
  assert.match(await ask('upload-pack', line(`want ${'1'.repeat(40)} side-band-64k\n`) + '0000' + line('done\n')), /ERR upload-pack: not our ref/)
})

test('a page pushes without a side band', async () => {
  const push = (before, after, ref, pack = '') =>
    ask('receive-pack', Buffer.concat([Buffer.from(line(`${before} ${after} ${ref}\0report-status delete-refs\n`) + '0000'), Buffer.from(pack)]))
  const main = (await git.listServerRefs({ http: client, url: clone, prefix: 'refs/heads/main' }))[0].oid
  const next = await commit('without a side band', [main]), { tree } = (await git.readCommit({ fs, dir, oid: next })).commit
  const { packfile } = await git.packObjects({ fs, dir, oids: [next, tree, (await git.readTree({ fs, dir, oid: tree })).tree[0].oid] })
  assert.match(await push(main, next, 'refs/heads/main', packfile), /^000eunpack ok\n[0-9a-f]{4}ng refs\/heads\/main authorisation failed: .*\n0000$/)
  await state({ main: next })
  assert.equal(await push(main, next, 'refs/heads/main', packfile), '000eunpack ok\n' + line('ok refs/heads/main\n') + '0000')
  assert.equal(await push(zero, zero, 'refs/heads/gone'), '000eunpack ok\n' + line('ok refs/heads/gone\n') + '0000')
})

test('what a page reads first is compressed', async () => {
  const branches = {}
  const main = (await git.listServerRefs({ http: client, url: clone, prefix: 'refs/heads/' }))[0].oid
  for (let i = 0; i < 100; i++) branches[`branch-${i}`] = main
  await state({ main, ...branches })
  const size = encoding => new Promise((resolve, reject) => {
    http.get(`${clone}/info/refs?service=git-upload-pack`, { headers: { 'Accept-Encoding': encoding } }, answer => {
      let n = 0
      answer.on('data', part => (n += part.length))
      answer.on('end', () => resolve([answer.headers['content-encoding'], n]))
      answer.on('error', reject)
    }).on('error', reject)
  })
  const [none, plain] = await size('identity'), [gzip, small] = await size('gzip')
  assert.equal(none, undefined)
  assert.equal(gzip, 'gzip')
  assert.ok(plain > 5000 && small < plain / 3, `${plain} bytes, compressed ${small}`)
})
