package gitrepo

import (
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The first 320 bytes of the two documents of shattered.io: what they share, and the blocks that
// differ. Their SHA-1 is the same.
const (
	shatteredStart = "255044462d312e330a25e2e3cfd30a0a0a312030206f626a0a3c3c2f57696474682032203020522f4865696768742033203020522f547970652034203020522f" +
		"537562747970652035203020522f46696c7465722036203020522f436f6c6f7253706163652037203020522f4c656e6774682038203020522f42697473506572" +
		"436f6d706f6e656e7420383e3e0a73747265616d0affd8fffe00245348412d3120697320646561642121212121852fec092339759c39b1a1c63c4c97e1fffe01"
	shatteredOne = "7f46dc93a6b67e013b029aaa1db2560b45ca67d688c7f84b8c4c791fe02b3df614f86db1690901c56b45c1530afedfb76038e972722fe7ad728f0e4904e046c2" +
		"30570fe9d41398abe12ef5bc942be33542a4802d98b5d70f2a332ec37fac3514e74ddc0f2cc1a874cd0c78305a21566461309789606bd0bf3f98cda8044629a1"
	shatteredTwo = "7346dc9166b67e118f029ab621b2560ff9ca67cca8c7f85ba84c79030c2b3de218f86db3a90901d5df45c14f26fedfb3dc38e96ac22fe7bd728f0e45bce046d2" +
		"3c570feb141398bb552ef5a0a82be331fea48037b8b5d71f0e332edf93ac3500eb4ddc0decc1a864790c782c76215660dd309791d06bd0af3f98cda4bc4629b1"
)

// TestCollisionsAreDetected shows that git, run as the server runs it, refuses data of a collision
// attack on SHA-1. The public collision has no header of a git object in front, and most commands
// of git put one there. git rerere hashes the text of a conflict as it is.
func TestCollisionsAreDetected(t *testing.T) {
	g := newGit(t)
	var attacks []string
	for _, blocks := range []string{shatteredOne, shatteredTwo} {
		text, err := hex.DecodeString(shatteredStart + blocks)
		if err != nil {
			t.Fatal(err)
		}
		attacks = append(attacks, string(text))
	}
	if attacks[0] == attacks[1] || sha1.Sum([]byte(attacks[0])) != sha1.Sum([]byte(attacks[1])) {
		t.Fatal("the two texts are no collision")
	}
	dir := t.TempDir()
	run := func(in string, args ...string) (string, error) {
		out, err := g.run(t.Context(), dir, []byte(in), args...)
		return strings.TrimSpace(string(out)), err
	}
	must := func(in string, args ...string) string {
		t.Helper()
		out, err := run(in, args...)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	must("", "init", "-q", "--object-format=sha1")
	blob := must("x", "hash-object", "-w", "--stdin")
	stages := ""
	for stage := 1; stage <= 3; stage++ {
		stages += fmt.Sprintf("100644 %s %d\tfile\n", blob, stage)
	}
	must(stages, "update-index", "--index-info")
	for i, side := range append(attacks, attacks[0][:200]) {
		conflict := "<<<<<<< ours\n" + side + "\n=======\n\xff\n>>>>>>> theirs\n"
		if err := os.WriteFile(filepath.Join(dir, "file"), []byte(conflict), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := run("", "-c", "rerere.enabled=true", "rerere")
		if attack := i < len(attacks); attack != (err != nil && strings.Contains(err.Error(), "collision attack")) {
			t.Errorf("text %d, of an attack: %v: git says %v", i, attack, err)
		}
	}
}

// TestGitWithoutDetection shows that the server does not run with a git that says it computes
// SHA-1 by code which detects no collisions.
func TestGitWithoutDetection(t *testing.T) {
	const version = "git version 2.50.1\ncpu: x86_64\nbuilt from commit: 0\n"
	for _, c := range []struct {
		lines string
		ok    bool
	}{
		{"", true}, // an older git, which says nothing of it
		{"SHA-1: SHA1_DC\nSHA-256: SHA256_BLK\n", true},
		{"SHA-1: SHA1_OPENSSL\n", false},
		{"SHA-1: SHA1_BLK\n", false},
		{"SHA-1: SHA1_APPLE\n", false},
		{"SHA-1: SHA1_DC\nnon-collision-detecting SHA-1: SHA1_OPENSSL\n", true}, // checksums of files that git writes itself
	} {
		program := filepath.Join(t.TempDir(), "git")
		if err := os.WriteFile(program, []byte("#!/bin/sh\ncat <<'END'\n"+version+c.lines+"END\n"), 0o700); err != nil {
			t.Fatal(err)
		}
		_, err := Find(t.Context(), program, DefaultOptions)
		if (err == nil) != c.ok || err != nil && !strings.Contains(err.Error(), "collisions") {
			t.Errorf("git that says %q: %v", c.lines, err)
		}
	}
}
