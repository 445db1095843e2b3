package admin

import (
	"context"
	"errors"
	"strings"
	"testing"

	"talon/host/backup"
)

// fakeBackups makes backups of nothing. It waits for the end of the context if the folder is /slow.
type fakeBackups struct{}

func (fakeBackups) Backup(ctx context.Context, ask Backup, progress func(backup.Progress)) (backup.Summary, error) {
	progress(backup.Progress{Phase: "one", Done: 1, Total: 2})
	progress(backup.Progress{Phase: "one", Done: 2, Total: 2}) // too soon to be said
	progress(backup.Progress{Phase: "two"})
	switch ask.To {
	case "/full":
		return backup.Summary{}, errors.New("the disk is full")
	case "/slow":
		<-ctx.Done()
		return backup.Summary{}, ctx.Err()
	}
	return backup.Summary{Dir: ask.To, Files: 7, Seconds: 1.5}, nil
}

func TestBackup(t *testing.T) {
	c := serve(t, API{Plugins: &fake{}, Backups: fakeBackups{}}, private(t))
	var phases []string
	said := func(p backup.Progress) { phases = append(phases, p.Phase) }
	sum, err := c.Backup(t.Context(), Backup{To: "/backup"}, said)
	if err != nil || sum.Dir != "/backup" || sum.Files != 7 || sum.Seconds != 1.5 || strings.Join(phases, " ") != "one two" {
		t.Errorf("%+v, %v, %q", sum, err, phases)
	}
	if _, err := c.Backup(t.Context(), Backup{To: "/full"}, said); err == nil || err.Error() != "the disk is full" {
		t.Errorf("got %v", err)
	}
	// The client's end is the backup's: else Serve would not stop.
	ctx, cancel := context.WithCancel(t.Context())
	if _, err := c.Backup(ctx, Backup{To: "/slow"}, func(p backup.Progress) {
		if p.Phase == "two" {
			cancel()
		}
	}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}
