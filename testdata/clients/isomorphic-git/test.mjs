// talon git serve --push as isomorphic-git sees it. The environment variable
// TALON_GIT_URL says where it is and TALON_GIT_DIR which folder it serves.
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { after, test as nodeTest } from 'node:test'

import git from 'isomorphic-git'
import http from 'isomorphic-git/http/node'

const { TALON_GIT_URL: server, TALON_GIT_DIR: folder } = process.env
assert.ok(server && folder, 'TALON_GIT_URL or TALON_GIT_DIR is not set')

// test bounds each test: an answer that never comes is a failure, not a wait.
const test = (name, fn) => nodeTest(name, { timeout: 60_000 }, fn)

const author = { name: 'a', email: 'a@example.com', timestamp: 1_700_000_000, timezoneOffset: 0 }
const temporary = fs.mkdtempSync(path.join(os.tmpdir(), 'talon-isomorphic-git.'))
after(() => fs.rmSync(temporary, { recursive: true }))

let folders = 0
const newFolder = () => path.join(temporary, String(folders++))

// newRemote makes an empty repository and returns its address.
function newRemote(name) {
  execFileSync('git', ['init', '-q', '--bare', '-b', 'main', path.join(folder, name)])
  return server + encodeURIComponent(name)
}

async function newWork(url) {
  const dir = newFolder()
  await git.init({ fs, dir, defaultBranch: 'main' })
  await git.addRemote({ fs, dir, remote: 'origin', url })
  return dir
}

async function commit(dir, content) {
  fs.writeFileSync(path.join(dir, 'file'), content)
  await git.add({ fs, dir, filepath: 'file' })
  return git.commit({ fs, dir, message: 'change', author })
}

async function refs(url, protocolVersion) {
  const list = await git.listServerRefs({ http, url, protocolVersion })
  return Object.fromEntries(list.filter(r => r.ref !== 'HEAD').map(r => [r.ref, r.oid]))
}

const push = (dir, options) => git.push({ fs, http, dir, remote: 'origin', ref: 'main', ...options })

test('push, clone, fetch', async () => {
  const url = newRemote('isomorphic git:🚀.git')
  const dir = await newWork(url)
  const first = await commit(dir, 'one')
  const second = await commit(dir, 'two')
  await git.annotatedTag({ fs, dir, ref: 'v1', object: first, tagger: author, message: 'v1' })
  assert.equal((await push(dir)).ok, true)
  assert.equal((await push(dir, { ref: 'v1' })).ok, true)
  for (const version of [1, 2]) {
    const got = await refs(url, version)
    assert.deepEqual(Object.keys(got).sort(), ['refs/heads/main', 'refs/tags/v1'])
    assert.equal(got['refs/heads/main'], second)
  }

  const clone = newFolder()
  await git.clone({ fs, http, dir: clone, url })
  assert.equal(await git.resolveRef({ fs, dir: clone, ref: 'HEAD' }), second)
  assert.equal(await git.currentBranch({ fs, dir: clone }), 'main')
  assert.equal(fs.readFileSync(path.join(clone, 'file'), 'utf8'), 'two')

  const shallow = newFolder()
  await git.clone({ fs, http, dir: shallow, url, depth: 1, singleBranch: true })
  assert.equal((await git.log({ fs, dir: shallow })).length, 1)
  await git.fetch({ fs, http, dir: shallow, url, depth: 10, ref: 'main', singleBranch: true })
  assert.equal((await git.log({ fs, dir: shallow })).length, 2)

  const third = await commit(dir, randomBytes(5 << 20))
  assert.equal((await push(dir)).ok, true)
  const fetched = await git.fetch({ fs, http, dir: clone, ref: 'main' })
  assert.equal(fetched.fetchHead, third)
})

test('rewrite and delete', async () => {
  const url = newRemote('isomorphic-git-rewrite.git')
  await push(await newWork(url).then(async dir => (await commit(dir, 'one'), dir)))
  const dir = await newWork(url)
  const unrelated = await commit(dir, 'unrelated')
  assert.equal((await push(dir, { force: true })).ok, true)
  assert.equal((await push(dir, { remoteRef: 'refs/heads/more' })).ok, true)
  assert.equal((await push(dir, { remoteRef: 'refs/heads/more', delete: true })).ok, true)
  assert.deepEqual(await refs(url, 2), { 'refs/heads/main': unrelated })
})

test('a refusal is readable', async () => {
  const url = newRemote('isomorphic-git-refused.git')
  const dir = await newWork(url)
  await commit(dir, 'one')
  await assert.rejects(push(dir, { remoteRef: 'refs/pull/1/head' }), err => {
    assert.match(JSON.stringify([err.message, err.data]), /only branches, tags/)
    return true
  })
  await assert.rejects(git.listServerRefs({ http, url: server + 'absent.git' }), err => err.data.statusCode === 404)
})
