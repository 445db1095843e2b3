"""talon git serve --push as libgit2 (pygit2) and dulwich see it.

The environment variable TALON_GIT_URL says where it is and TALON_GIT_DIR which folder it
serves. What is not installed is skipped.
"""

import io
import os
import subprocess
import tempfile
import unittest

try:
    import pygit2
except ImportError:
    pygit2 = None
try:
    import dulwich.porcelain
    import dulwich.repo
except ImportError:
    dulwich = None

SERVER, FOLDER = os.environ["TALON_GIT_URL"], os.environ["TALON_GIT_DIR"]


def new_remote(name):
    subprocess.run(["git", "init", "-q", "--bare", "-b", "master", os.path.join(FOLDER, name)], check=True)
    return SERVER + name


def refs(url):
    out = subprocess.run(["git", "ls-remote", url], check=True, capture_output=True, text=True).stdout
    return {line.split("\t")[1] for line in out.splitlines()} - {"HEAD"}


class Clients:
    """The tests: a client has clone and push, which returns what the user is told."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.dir = folder.name

    def test_push_and_clone(self):
        url = new_remote(self.name + ".git")
        self.clone(url, os.path.join(self.dir, "empty"))
        self.push(url, "refs/heads/master:refs/heads/master")
        self.assertEqual(refs(url), {"refs/heads/master"})
        self.clone(url, os.path.join(self.dir, "clone"))

    def test_delete(self):
        url = new_remote(self.name + "-delete.git")
        self.push(url, "refs/heads/master:refs/heads/master")
        self.push(url, "refs/heads/master:refs/heads/dev")
        self.push(url, ":refs/heads/dev")
        self.push(url, ":refs/heads/dev")  # which is not there any more
        self.assertEqual(refs(url), {"refs/heads/master"})

    def test_refusal(self):
        url = new_remote(self.name + "-refused.git")
        self.assertIn("only branches, tags", self.push(url, "refs/heads/master:refs/pull/1/head"))
        self.assertEqual(refs(url), set())


@unittest.skipIf(pygit2 is None, "pygit2 is not installed (Debian: python3-pygit2)")
class LibGit2(Clients, unittest.TestCase):
    name = "libgit2"

    def clone(self, url, where):
        pygit2.clone_repository(url, where)

    def push(self, url, spec):
        repo = pygit2.init_repository(tempfile.mkdtemp(dir=self.dir))
        me = pygit2.Signature("a", "a@example.com", 1_700_000_000, 0)
        repo.create_commit("refs/heads/master", me, me, "change", repo.TreeBuilder().write(), [])
        said = []

        class Told(pygit2.RemoteCallbacks):
            def push_update_reference(self, refname, message):
                said.append(message or "")

        repo.remotes.create("origin", url).push([spec], callbacks=Told())
        return " ".join(said)


@unittest.skipIf(dulwich is None, "dulwich is not installed (Debian: python3-dulwich)")
class Dulwich(Clients, unittest.TestCase):
    name = "dulwich"

    def clone(self, url, where):
        dulwich.porcelain.clone(url, where, errstream=io.BytesIO()).close()

    def push(self, url, spec):
        where = tempfile.mkdtemp(dir=self.dir)
        dulwich.repo.Repo.init(where).close()
        me = b"a <a@example.com>"
        dulwich.porcelain.commit(where, message=b"change", author=me, committer=me, commit_timestamp=1_700_000_000, author_timestamp=1_700_000_000)
        said = io.BytesIO()
        dulwich.porcelain.push(where, url, [spec.encode()], outstream=said, errstream=said)
        return said.getvalue().decode()


if __name__ == "__main__":
    unittest.main()
