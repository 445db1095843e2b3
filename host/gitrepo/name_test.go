package gitrepo

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const (
	alice = "npub1xnyq0w834zswvmqld7y803ntdjqlqzw473xjtkuzu2gqndyd8ghqsadjyq"
	bob   = "npub180cvv07tjdrrgpa0j7j7tmnyl2yr6yr7l8j4s3evf6u64th6gkwsyjh6w6"
)

func mustName(t testing.TB, npub, identifier string) Name {
	t.Helper()
	name, err := ParseName(npub, identifier)
	if err != nil {
		t.Fatal(err)
	}
	return name
}

// Every identifier that NIP-34 allows has a file of its own, from which it can be
// had back.
func TestFileNames(t *testing.T) {
	seen := map[string]string{}
	for _, identifier := range []string{
		"talon", "Talon", "TALON", "a b", " ", "a:b:c", "🚀", strings.Repeat("🚀", 200), strings.Repeat("a", 200), strings.Repeat("a", 201),
		strings.Repeat("a", 200) + "b", "%2e%2e", "%", "%%", "%41", ".git", "foo.git", "..foo", "-rf", "--upload-pack=x", "~root", "a~b",
		"...", "a\u00adb", "é", "e\u0301", "a.lock", "'; rm -rf", "$(id)", "*", "?", "con", "\u202egit", "\"quoted", "#hash", "npub1",
		strings.Repeat("x", MaxIdentifier), strings.Repeat(" ", 70),
	} {
		if err := CheckIdentifier(identifier); err != nil {
			t.Errorf("CheckIdentifier(%.40q): %v", identifier, err)
			continue
		}
		file, cut := fileName(identifier)
		if len(file) > 255-len(".lock") || file != filepath.Base(file) || file[0] == '.' || file[0] == '-' ||
			strings.ContainsAny(file, " /\\\"'$*?#\n") {
			t.Errorf("the file name of %.40q is %q", identifier, file)
		}
		if other, ok := seen[file]; ok {
			t.Errorf("%.40q and %.40q have the same file", identifier, other)
		}
		seen[file] = identifier
		back, ok := decodeFileName(file)
		if ok == cut || ok && back != identifier {
			t.Errorf("%.40q is had back as %.40q, %t from a name that was cut: %t", identifier, back, ok, cut)
		}
	}
}

// The identifier comes back from the folder, also where its name was cut inside of an escape.
func TestIdentifierOf(t *testing.T) {
	root := newRoot(t)
	for _, identifier := range []string{
		"talon", "日", strings.Repeat("日", 23), strings.Repeat("и", 34), strings.Repeat("😀", 17), strings.Repeat("x", 99) + "😀😀😀😀😀😀😀😀😀",
		strings.Repeat("~", 67), strings.Repeat("long ", 100),
	} {
		r := newRepo(t, root, alice, identifier, SHA1)
		if back, err := IdentifierOf(r.Dir()); err != nil || back != identifier {
			t.Errorf("%.40q comes back as %.40q, %v", identifier, back, err)
		}
		text := filepath.Join(r.Dir(), cutFile)
		if _, err := os.Stat(text); err != nil {
			continue
		}
		for _, other := range []string{identifier[:len(identifier)-4], identifier + "x", "", strings.Repeat("x", MaxIdentifier+1)} {
			if err := os.WriteFile(text, []byte(other), 0o644); err != nil {
				t.Fatal(err)
			}
			if back, err := IdentifierOf(r.Dir()); err == nil {
				t.Errorf("%.40q comes back as %.40q from another file", identifier, back)
			}
		}
		if err := os.Remove(text); err != nil {
			t.Fatal(err)
		}
		if _, err := IdentifierOf(r.Dir()); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("without the file, %.40q fails with %v", identifier, err)
		}
	}
}

func TestIdentifiersRefused(t *testing.T) {
	for _, identifier := range []string{
		"", ".", "..", "/", "a/b", "../x", "/etc", `a\b`, `..\x`, "a\x00b", "a\nb", "a\rb", "a\tb", "a\x7fb", "a\u0085b", "a\xffb",
		strings.Repeat("x", MaxIdentifier+1),
	} {
		if CheckIdentifier(identifier) == nil {
			t.Errorf("CheckIdentifier(%.40q) allows it", identifier)
		}
		if _, err := ParseName(alice, identifier); err == nil {
			t.Errorf("ParseName(%.40q) allows it", identifier)
		}
	}
	for _, npub := range []string{
		"", ".", "..", "npub1", strings.ToUpper(alice), alice[:62] + "p", alice + "q", "../" + alice, "N" + alice[1:],
		"3c0c0", strings.Repeat("a", 64),
	} {
		if _, err := ParseName(npub, "x"); err == nil {
			t.Errorf("ParseName(%q, x) allows it", npub)
		}
	}
	for _, path := range []string{"", alice, alice + "/x", alice + "/.git", alice + "/..git", alice + "/a/b.git", "x/" + alice + "/y.git"} {
		parts := strings.Split(path, "/")
		name, err := ParsePath(parts)
		// "..git" is the identifier ".", which has no place.
		if err == nil {
			t.Errorf("ParsePath(%q) = %v", path, name)
		}
	}
	if name, err := ParsePath([]string{alice, "foo.git.git"}); err != nil || name.Identifier() != "foo.git" {
		t.Errorf("foo.git.git is %v, %v; want foo.git", name, err)
	}
}

func FuzzFileName(f *testing.F) {
	for _, s := range []string{"talon", "a b", "%41", "..", "🚀", strings.Repeat("y", 300)} {
		f.Add(s, s+".git")
	}
	f.Fuzz(func(t *testing.T, identifier, file string) {
		if back, ok := decodeFileName(file); ok {
			if again, cut := fileName(back); cut || again != file {
				t.Fatalf("%q comes from %q, which becomes %q", back, file, again)
			}
		}
		if CheckIdentifier(identifier) != nil {
			return
		}
		name, cut := fileName(identifier)
		if len(name) > 205 || strings.ContainsAny(name, "/\\\x00") || strings.HasPrefix(name, ".") {
			t.Fatalf("the file name of %q is %q", identifier, name)
		}
		if wasCut(name) != cut {
			t.Fatalf("%q was cut: %t", name, cut)
		}
		if back, ok := decodeFileName(name); !cut && (!ok || back != identifier) {
			t.Fatalf("%q comes back as %q, %t", identifier, back, ok)
		}
	})
}
