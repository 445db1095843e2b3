package moderation

import (
	"os"
	"path/filepath"
	"testing"

	"talon/host"
)

// TestFile shows that the copy has each row once, and that a line which a crash has cut off
// damages no other.
func TestFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), FileName)
	var rows table
	list, err := Add(&rows, []Row{{Action: Ban, Target: AuthorTarget(mallory), Reason: "a"}, {Action: Hide, Target: KindTarget(1)}, {Action: Hide, Target: EventTarget(host.ID{1})}}, 7)
	if err != nil {
		t.Fatal(err)
	}
	f, got, _, err := OpenFile(path)
	if err != nil || len(got) != 0 {
		t.Fatalf("got %v, %v", got, err)
	}
	for range 2 {
		if err := f.Append(list[:1]); err != nil {
			t.Fatal(err)
		}
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	line := list[1].Line()
	if err := os.WriteFile(path, append(whole, line[:len(line)/2]...), 0o600); err != nil {
		t.Fatal(err)
	}
	f, got, damaged, err := OpenFile(path)
	if err != nil || len(got) != 1 || damaged != 1 || got[0].UID != list[0].UID {
		t.Fatalf("got %v, %d damaged, %v", got, damaged, err)
	}
	if err := f.Append(list); err != nil {
		t.Fatal(err)
	}
	if _, got, damaged, err = OpenFile(path); err != nil || len(got) != 3 || damaged != 1 {
		t.Fatalf("got %v, %d damaged, %v", got, damaged, err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
}
