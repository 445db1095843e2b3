package daemon

import (
	"net/http"
	"time"

	"talon/host"
	"talon/host/management"
	"talon/host/schnorr"
)

// managementNIP is the number of the relay management API.
const managementNIP = 86

// managed reports whether anybody has a role in the management API.
func (d *Daemon) managed() bool { return len(d.cfg.Operators)+len(d.cfg.Moderators) > 0 }

// withManagement serves the management API, if anybody has a role in it, and passes other requests on.
func (d *Daemon) withManagement(core *Core, next http.Handler) http.Handler {
	if !d.managed() {
		return next
	}
	api := d.http.Handler(management.New(management.Config{
		Operators:  keysOf(d.cfg.Operators),
		Moderators: keysOf(d.cfg.Moderators),
		Domains:    d.cfg.Domains,
		Log:        core.Moderation,
		Queue:      core.newModerator(d.cfg, nil).Queue,
		Moderate:   core.Pipeline.Moderate,
		Verify:     schnorr.Verify,
		Now:        time.Now,
		Logger:     d.log,
	}))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if management.Wants(r) {
			api.ServeHTTP(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func keysOf(list [][32]byte) (keys []host.PubKey) {
	for _, key := range list {
		keys = append(keys, key)
	}
	return keys
}
