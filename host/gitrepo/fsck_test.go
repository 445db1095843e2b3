package gitrepo

import (
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"talon/host"
	"talon/internal/testkit"
)

const author = "a <a@b> 1 +0000"

// forged makes objects that git itself would not.
type forged struct {
	t   *testing.T
	dir string
}

func (f forged) object(kind, text string) string {
	f.t.Helper()
	file := filepath.Join(f.t.TempDir(), "object")
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		f.t.Fatal(err)
	}
	return git(f.t, f.dir, "hash-object", "-w", "--literally", "-t", kind, file)
}

// tree makes a tree from modes, names and ids, as they are.
func (f forged) tree(entries ...[3]string) string {
	f.t.Helper()
	var raw strings.Builder
	for _, e := range entries {
		id, err := hex.DecodeString(e[2])
		if err != nil {
			f.t.Fatal(err)
		}
		raw.WriteString(e[0] + " " + e[1] + "\x00" + string(id))
	}
	return f.object("tree", raw.String())
}

func (f forged) commit(tree, author, committer, text string) string {
	f.t.Helper()
	return f.object("commit", "tree "+tree+"\nauthor "+author+"\ncommitter "+committer+"\n\n"+text+"\n")
}

// file makes a commit with one file.
func (f forged) file(mode, name, text string) string {
	f.t.Helper()
	return f.commit(f.tree([3]string{mode, name, f.object("blob", text)}), author, author, "x")
}

// faults are objects with faults, and which of them are refused, with what git says.
var faults = []struct {
	name    string
	refused string
	forge   func(f forged, tree, blob string) string
}{
	{"a folder .git", "hasDotgit: contains '.git'", func(f forged, _, blob string) string {
		config := f.tree([3]string{"100644", "config", blob})
		return f.commit(f.tree([3]string{"40000", ".git", config}), author, author, "x")
	}},
	{"a folder .GIT", "hasDotgit: contains '.git'", func(f forged, tree, _ string) string {
		return f.commit(f.tree([3]string{"40000", ".GIT", tree}), author, author, "x")
	}},
	{"a folder ..", "hasDotdot: contains '..'", func(f forged, tree, _ string) string {
		return f.commit(f.tree([3]string{"40000", "..", tree}), author, author, "x")
	}},
	{"a folder .", "hasDot: contains '.'", func(f forged, tree, _ string) string {
		return f.commit(f.tree([3]string{"40000", ".", tree}), author, author, "x")
	}},
	{"a slash in a name", "fullPathname: contains full pathnames", func(f forged, _, blob string) string {
		return f.commit(f.tree([3]string{"100644", "../x", blob}), author, author, "x")
	}},
	{"two of a name", "duplicateEntries: contains duplicate file entries", func(f forged, tree, blob string) string {
		return f.commit(f.tree([3]string{"100644", "x", blob}, [3]string{"40000", "x", tree}), author, author, "x")
	}},
	{"a tree out of order", "treeNotSorted: not properly sorted", func(f forged, _, blob string) string {
		return f.commit(f.tree([3]string{"100644", "y", blob}, [3]string{"100644", "x", blob}), author, author, "x")
	}},
	{"a submodule's URL that is an option", "gitmodulesUrl: disallowed submodule url: -u./payload", func(f forged, _, _ string) string {
		return f.file("100644", ".gitmodules", "[submodule \"a\"]\n\tpath = a\n\turl = -u./payload\n")
	}},
	{"a submodule's path that is an option", "gitmodulesPath: disallowed submodule path: -x", func(f forged, _, _ string) string {
		return f.file("100644", ".gitmodules", "[submodule \"a\"]\n\tpath = -x\n\turl = https://example.com/a\n")
	}},
	{"a submodule's name that leads elsewhere", "gitmodulesName: disallowed submodule name: ../../x", func(f forged, _, _ string) string {
		return f.file("100644", ".gitmodules", "[submodule \"../../x\"]\n\tpath = a\n\turl = https://example.com/a\n")
	}},
	{"a submodule with a command", "gitmodulesUpdate: disallowed submodule update setting: !sh", func(f forged, _, _ string) string {
		return f.file("100644", ".gitmodules", "[submodule \"a\"]\n\tpath = a\n\turl = https://example.com/a\n\tupdate = !sh\n")
	}},
	{".gitmodules that is a link", "gitmodulesSymlink: .gitmodules is a symbolic link", func(f forged, _, _ string) string {
		return f.file("120000", ".gitmodules", "elsewhere")
	}},
	{".gitattributes with a long line", "gitattributesLineLength: .gitattributes has too long lines to parse", func(f forged, _, _ string) string {
		return f.file("100644", ".gitattributes", strings.Repeat("x", 4000)+" text\n")
	}},
	{"a message that ends early", "nulInCommit: NUL byte in the commit object body", func(f forged, tree, _ string) string {
		return f.commit(tree, author, author, "x\x00y")
	}},
	{"no committer", "missingCommitter", func(f forged, tree, _ string) string {
		return f.object("commit", "tree "+tree+"\nauthor "+author+"\n\nx\n")
	}},

	{"a mode with a zero", "", func(f forged, tree, _ string) string {
		return f.commit(f.tree([3]string{"040000", "x", tree}), author, author, "x")
	}},
	{"an odd mode", "", func(f forged, _, blob string) string {
		return f.commit(f.tree([3]string{"100664", "x", blob}), author, author, "x")
	}},
	{"no space before the email", "", func(f forged, tree, _ string) string { return f.commit(tree, "a<a@b> 1 +0000", author, "x") }},
	{"no space before the date", "", func(f forged, tree, _ string) string { return f.commit(tree, "a <a@b>1 +0000", author, "x") }},
	{"no name", "", func(f forged, tree, _ string) string { return f.commit(tree, "<a@b> 1 +0000", author, "x") }},
	{"an odd name", "", func(f forged, tree, _ string) string { return f.commit(tree, "a> <a@b> 1 +0000", author, "x") }},
	{"no email", "", func(f forged, tree, _ string) string { return f.commit(tree, "a 1 +0000", author, "x") }},
	{"an odd email", "", func(f forged, tree, _ string) string { return f.commit(tree, "a <a <b> 1 +0000", author, "x") }},
	{"no date", "", func(f forged, tree, _ string) string { return f.commit(tree, "a <a@b> x +0000", author, "x") }},
	{"a date with a zero", "", func(f forged, tree, _ string) string { return f.commit(tree, "a <a@b> 0001 +0000", author, "x") }},
	{"a date too late", "", func(f forged, tree, _ string) string {
		return f.commit(tree, "a <a@b> 99999999999999999999 +0000", author, "x")
	}},
	{"an odd time zone", "", func(f forged, tree, _ string) string { return f.commit(tree, "a <a@b> 1 +051800", author, "x") }},
	{"two authors", "", func(f forged, tree, _ string) string { return f.commit(tree, author+"\nauthor "+author, author, "x") }},
	{"a tag without a tagger", "", func(f forged, tree, _ string) string {
		return f.object("tag", "object "+f.commit(tree, author, author, "x")+"\ntype commit\ntag v 1\n\nx\n")
	}},
	{".gitmodules that is none", "", func(f forged, _, _ string) string { return f.file("100644", ".gitmodules", "[submodule") }},
	{".gitignore that is a link", "", func(f forged, _, _ string) string { return f.file("120000", ".gitignore", "elsewhere") }},
}

// TestFsck: a push and a fetch may bring the same objects. Both refuse those that git refuses
// with transfer.fsckObjects, except faults of old histories.
func TestFsck(t *testing.T) {
	testkit.SkipRace(t)
	root := newRoot(t)
	for i, fault := range faults {
		t.Run(fault.name, func(t *testing.T) {
			pushed := newRepo(t, root, alice, fmt.Sprintf("pushed-%d", i), SHA1)
			fetched := newRepo(t, root, alice, fmt.Sprintf("fetched-%d", i), SHA1)
			dir, _, second := work(t, SHA1)
			id := fault.forge(forged{t, dir}, git(t, dir, "rev-parse", second+"^{tree}"), git(t, dir, "rev-parse", second+":file"))
			git(t, dir, "update-ref", "refs/tags/fault", id)

			err := push(t, pushed, packOf(t, dir, id), host.RefUpdate{Ref: "refs/tags/fault", Old: strings.Repeat("0", 40), New: id})
			check(t, "push", fault.refused, err, new(Refused))
			found, err := fetch(t, fetched, served(t, dir), id)
			check(t, "fetch", fault.refused, err, new(RefusedObjects))
			if refused := new(RefusedObjects); errors.As(err, &refused) && !slices.Equal(refused.IDs, []string{id}) {
				t.Errorf("fetch: %v is refused", refused.IDs)
			}
			for repo, way := range map[*Repo]string{pushed: "push", fetched: "fetch"} {
				if has, err := repo.Has(t.Context(), id); err != nil || has[0] != (fault.refused == "") {
					t.Errorf("%s: it is here: %t, %v", way, has[0], err)
				}
			}
			if (len(found) == 1) != (fault.refused == "") {
				t.Errorf("fetch: %v was found", found)
			}
			clean(t, root)
		})
	}
}

// check expects an error of a type, with words of git in it, or none.
func check[E error](t *testing.T, way, want string, err error, as E) {
	t.Helper()
	switch {
	case want == "" && err != nil:
		t.Errorf("%s: %v", way, err)
	case want != "" && (!errors.As(err, &as) || !strings.HasPrefix(as.Error(), "object ") || !strings.Contains(as.Error(), want)):
		t.Errorf("%s: %v, want %s", way, err, want)
	}
}

// A file that comes before it has its name, and one whose blob was here before, are
// checked all the same.
func TestFsckOfWhatIsHere(t *testing.T) {
	root := newRoot(t)
	r := newRepo(t, root, alice, "x", SHA1)
	dir, _, _ := work(t, SHA1)
	f := forged{t, dir}
	const text = "[submodule \"a\"]\n\tpath = a\n\turl = -u./payload\n"
	zero := strings.Repeat("0", 40)
	landed(t, r, dir, host.RefUpdate{Ref: "refs/heads/innocent", Old: zero, New: f.file("100644", "innocent", text)})
	attack := f.file("100644", ".gitmodules", text)
	pack := packOf(t, dir, attack, "^"+git(t, r.Dir(), "rev-parse", "refs/heads/innocent"))
	check(t, "push", "gitmodulesUrl", push(t, r, pack, host.RefUpdate{Ref: "refs/heads/attack", Old: zero, New: attack}), new(Refused))
}

// Of many objects, those that are refused keep the others back from nothing.
func TestFetchOfSomeRefused(t *testing.T) {
	root := newRoot(t)
	r := newRepo(t, root, alice, "x", SHA1)
	dir, _, second := work(t, SHA1)
	f := forged{t, dir}
	var ids, wrong []string
	for i := range 20 {
		id := f.file("100644", "file", strings.Repeat("x", i))
		if i == 3 || i == 16 {
			id = f.file("100644", ".git", strings.Repeat("x", i))
			wrong = append(wrong, id)
		}
		git(t, dir, "update-ref", "refs/heads/"+id, id)
		ids = append(ids, id)
	}
	ids = append(ids, second)
	slices.Sort(wrong)
	found, err := fetch(t, r, served(t, dir), ids...)
	refused := new(RefusedObjects)
	if !errors.As(err, &refused) || !slices.Equal(slices.Sorted(slices.Values(refused.IDs)), wrong) {
		t.Errorf("%v is refused, want %v: %v", refused.IDs, wrong, err)
	}
	if len(found) != len(ids)-len(wrong) {
		t.Errorf("%d of %d have come", len(found), len(ids)-len(wrong))
	}
	clean(t, root)
}

// TestFsckFault: text of a server is not a fault that git found.
func TestFsckFault(t *testing.T) {
	for stderr, want := range map[string]string{
		"": "",
		"error: object aa: hasDotgit: contains '.git'\nfatal: fsck error in packed object\n":                          "object aa: hasDotgit: contains '.git'",
		"error: object aa: a\nerror: object bb: b\x1b\nfatal: fsck error in pack objects\nfatal: fetch-pack: invalid": "object aa: a; object bb: b ",
		"Indexing objects: 1%\rerror: object aa: a\nfatal: fsck error in packed object":                               "object aa: a",
		"ect aa: half\nfatal: fsck error in packed object\n":                                                          "fsck error in packed object",
		"remote: error: object aa: a\nremote: fatal: fsck error in packed object\nfatal: early EOF\n":                 "",
		"error: object aa: a\nfatal: early EOF\n":                                                                     "",
	} {
		if got := fsckFault([]byte(stderr)); got != want {
			t.Errorf("%q: %q, want %q", stderr, got, want)
		}
	}
}
