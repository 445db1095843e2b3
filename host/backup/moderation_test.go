package backup

import (
	"os"
	"path/filepath"
	"testing"
)

// TestModerationStays restores a backup into a folder that has a newer log of takedowns: its rows
// stay, and the ones that only the backup has come to them.
func TestModerationStays(t *testing.T) {
	d := newData(t)
	d.write(t, map[string]string{ModerationFile: "{\"uid\":\"1\"}\n{\"uid\":\"2\"}\n"})
	source := d.source()
	source.Others = append(source.Others, Other{ModerationFile, filepath.Join(d.dir, ModerationFile)})
	dir := t.TempDir()
	if _, err := Run(t.Context(), source, dir, false, quiet); err != nil {
		t.Fatal(err)
	}
	restored := t.TempDir()
	newer := "{\"uid\":\"2\"}\n{\"uid\":\"3\"}\n{\"cut off"
	if err := os.WriteFile(filepath.Join(restored, ModerationFile), []byte(newer), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Restore(t.Context(), dir, Target{Data: restored, Git: restored, Plugins: filepath.Join(restored, "plugins")}, quiet); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(restored, ModerationFile))
	if want := "{\"uid\":\"1\"}\n{\"uid\":\"2\"}\n{\"uid\":\"3\"}\n{\"cut off\n"; err != nil || string(got) != want {
		t.Errorf("got %q, %v", got, err)
	}
}
