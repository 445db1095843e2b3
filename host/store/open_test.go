package store

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"talon/host"
)

// raw changes a database behind the package's back.
func raw(t testing.TB, file, sql string) {
	t.Helper()
	c, err := dial(file, "rwc")
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(c.script(sql), c.close()); err != nil {
		t.Fatal(err)
	}
}

// made returns the file of a database with one event that nobody has open.
func made(t testing.TB) string {
	t.Helper()
	s, err := Open(context.Background(), t.TempDir(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	put(t, s, 0, fake(1, 1, 1, 1))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return s.Path()
}

func TestOpenRefuses(t *testing.T) {
	for _, tt := range []struct {
		name string
		file func(t *testing.T) string
		want error
		says string
	}{
		{"a newer version", func(t *testing.T) string {
			file := made(t)
			raw(t, file, `UPDATE meta SET value = 99 WHERE name = 'version'`)
			return file
		}, ErrNewer, "run the newer version"},
		{"another program's database", func(t *testing.T) string {
			file := filepath.Join(t.TempDir(), FileName)
			raw(t, file, `CREATE TABLE event (id TEXT)`)
			return file
		}, ErrForeign, "choose another data directory"},
		{"not a database", func(t *testing.T) string {
			file := filepath.Join(t.TempDir(), FileName)
			if err := os.WriteFile(file, bytes.Repeat([]byte("not a database "), 1000), 0o644); err != nil {
				t.Fatal(err)
			}
			return file
		}, ErrForeign, "choose another data directory"},
		{"no secret", func(t *testing.T) string {
			file := made(t)
			raw(t, file, `DELETE FROM meta WHERE name = 'secret'`)
			return file
		}, nil, "restore a backup"},
		{"a file where the directory should be", func(t *testing.T) string {
			file := filepath.Join(t.TempDir(), "data")
			if err := os.WriteFile(file, nil, 0o644); err != nil {
				t.Fatal(err)
			}
			return filepath.Join(file, "x.db")
		}, nil, "data"},
		{"no permission", func(t *testing.T) string {
			if os.Geteuid() == 0 {
				t.Skip("root may do everything")
			}
			dir := t.TempDir()
			if err := os.Chmod(dir, 0o500); err != nil {
				t.Fatal(err)
			}
			return filepath.Join(dir, FileName)
		}, os.ErrPermission, "give the user that runs talon the right"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			file := tt.file(t)
			before, _ := os.ReadFile(file)
			for name, open := range map[string]func(context.Context, string, Options) (*Store, error){"Open": Open, "OpenReadOnly": OpenReadOnly} {
				s, err := open(context.Background(), file, Options{})
				if err == nil {
					s.Close()
					t.Fatalf("%s: no error", name)
				}
				if tt.want != nil && !errors.Is(err, tt.want) && name == "Open" {
					t.Errorf("%s: got %v, want %v", name, err, tt.want)
				}
				if name == "Open" && !strings.Contains(err.Error(), tt.says) || !strings.Contains(err.Error(), filepath.Dir(file)) {
					t.Errorf("%s: %q does not say %q and where", name, err, tt.says)
				}
			}
			if after, _ := os.ReadFile(file); !bytes.Equal(before, after) {
				t.Error("the file was changed")
			}
		})
	}
}

func TestOpenTwice(t *testing.T) {
	s := open(t)
	_, err := Open(context.Background(), s.Path(), Options{})
	if !errors.Is(err, ErrInUse) || !strings.Contains(err.Error(), s.Path()) {
		t.Errorf("got %v, want %v that names the file", err, ErrInUse)
	}
}

// TestOpenAfterKill: what a killed server has started still has the lock, for a moment.
func TestOpenAfterKill(t *testing.T) {
	path := filepath.Join(t.TempDir(), "talon.db")
	left, err := lock(path)
	if err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(100*time.Millisecond, func() { left.Close() })
	f, err := lock(path)
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
}

func TestOpenReadOnlyBesideWriter(t *testing.T) {
	s := open(t)
	first, second := fake(1, 1, 1, 1), fake(2, 1, 1, 2)
	put(t, s, 0, first)
	ro, err := OpenReadOnly(context.Background(), filepath.Dir(s.Path()), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer ro.Close()
	put(t, s, 0, second)
	if got, want := selected(t, ro, 0, host.Filter{Limit: -1}), texts(first, second); strings.Join(got, "") != strings.Join(want, "") {
		t.Errorf("got %q, want %q", got, want)
	}
	if _, err := ro.Begin(); !errors.Is(err, ErrReadOnly) {
		t.Errorf("begin: got %v, want %v", err, ErrReadOnly)
	}
	if _, err := OpenReadOnly(context.Background(), t.TempDir(), Options{}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no database: got %v, want %v", err, os.ErrNotExist)
	}
}

func TestMigrate(t *testing.T) {
	file := filepath.Join(t.TempDir(), "m.db")
	first := []string{`CREATE TABLE a (n)`, `INSERT INTO a VALUES (1)`}
	for _, tt := range []struct {
		name  string
		steps []string
		fails bool
		rows  int64
		after int
	}{
		{"from nothing", first, false, 1, 2},
		{"again", first, false, 1, 2},
		{"a step that fails half way", append(first[:2:2], `INSERT INTO a VALUES (2); INSERT INTO b VALUES (1)`), true, 1, 2},
		{"one step more", append(first[:2:2], `INSERT INTO a VALUES (3)`), false, 2, 3},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, err := dial(file, "rwc")
			if err != nil {
				t.Fatal(err)
			}
			defer c.close()
			v, err := c.version()
			if err != nil {
				t.Fatal(err)
			}
			if err := c.migrate(v, tt.steps); (err != nil) != tt.fails {
				t.Errorf("migrate: %v", err)
			}
			rows, err := c.number(context.Background(), `SELECT count(*) FROM a`)
			if err != nil || rows != tt.rows {
				t.Errorf("got %d rows, %v; want %d", rows, err, tt.rows)
			}
			if v, err := c.version(); err != nil || v != tt.after {
				t.Errorf("got version %d, %v; want %d", v, err, tt.after)
			}
		})
	}
}

// TestSeqIsNeverUsedTwice removes the newest event, with and without a restart.
func TestSeqIsNeverUsedTwice(t *testing.T) {
	dir := t.TempDir()
	s := reopen(t, dir)
	last := put(t, s, 0, fake(1, 1, 1, 1), fake(2, 1, 0, 1))[1].Seq
	for n := 3; n < 9; n++ {
		out := put(t, s, 0, fake(n, 1, 0, int64(n)))[0] // replaces the one before
		if out.Seq <= last {
			t.Errorf("seq %d after %d", out.Seq, last)
		}
		last = out.Seq
		tx, err := s.Begin()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tx.remove(last); err != nil {
			t.Fatal(err)
		}
		if err := tx.Commit(); err != nil {
			t.Fatal(err)
		}
		if n%2 == 0 {
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			s = reopen(t, dir)
		}
	}
}

// TestCrash opens the files as they lie after a commit, without a Close.
func TestCrash(t *testing.T) {
	s := open(t)
	events := []*host.Event{fake(1, 1, 1, 1), fake(2, 1, 30617, 2), fake(3, 2, 1, 3)}
	put(t, s, 0, events...)
	tx, err := s.Begin() // what was not committed is lost
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	if _, err := tx.Put(fake(4, 1, 1, 1), 0); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, suffix := range []string{"", "-wal"} {
		b, err := os.ReadFile(s.Path() + suffix)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, FileName+suffix), b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	after := reopen(t, dir)
	if got, want := selected(t, after, 0, host.Filter{Limit: -1}), texts(events...); strings.Join(got, "") != strings.Join(want, "") {
		t.Errorf("got %q, want %q", got, want)
	}
	check(t, after)
}

func TestClosed(t *testing.T) {
	s := open(t)
	if err := errors.Join(s.Close(), s.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Begin(); !errors.Is(err, ErrClosed) {
		t.Errorf("begin: got %v, want %v", err, ErrClosed)
	}
	if _, err := s.Select(context.Background(), nil, 0); !errors.Is(err, ErrClosed) {
		t.Errorf("select: got %v, want %v", err, ErrClosed)
	}
}

// TestHidden shows that only the owner can read the database and its log, also if they were made
// by a version that let others.
func TestHidden(t *testing.T) {
	file := filepath.Join(t.TempDir(), FileName)
	for range 2 {
		s, err := Open(t.Context(), file, Options{})
		if err != nil {
			t.Fatal(err)
		}
		for _, suffix := range []string{"", "-wal", "-shm"} {
			info, err := os.Stat(file + suffix)
			if err != nil {
				t.Fatal(err)
			}
			if mode := info.Mode().Perm(); mode != 0o600 {
				t.Errorf("%s%s has mode %o, want 600", FileName, suffix, mode)
			}
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(file, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// TestFolderIsPrivate: other users of the machine cannot read the data folder that Open makes.
func TestFolderIsPrivate(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	s, err := Open(t.Context(), dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the folder has mode %v, %v", info.Mode(), err)
	}
}
