package daemon

import (
	"net/http"

	"talon/host"
	"talon/host/relay"
)

// relayConfig translates the operator's choices for the relay.
func (d *Daemon) relayConfig(next http.Handler, about func() []host.Description, self host.PubKey) relay.Config {
	cfg := d.cfg
	limits := relay.DefaultLimits
	limits.Wire.Filters = cfg.Filters
	limits.Wire.Values = cfg.Values
	limits.Connections = cfg.Connections
	limits.ConnectionsPerAddr = cfg.ConnectionsPer
	limits.MessageBytes = int(cfg.Message)
	limits.PartialBytes = max(limits.PartialBytes, 4*int(cfg.Message))
	limits.MessagesPerSecond = float64(cfg.MessageRate)
	limits.MessageBurst = 2 * cfg.MessageRate
	limits.QueueBytes = int(cfg.SendQueue)
	limits.EventBytes = max(limits.EventBytes, 2*int(cfg.Message))
	limits.Subscriptions = cfg.Subscriptions
	limits.DefaultLimit = cfg.DefaultLimit
	limits.MaxLimit = cfg.MaxLimit
	limits.NegSessionsTotal = cfg.NegSessions
	limits.NegRecords = cfg.NegRecords
	limits.NegRecordsTotal = max(limits.NegRecordsTotal, 2*cfg.NegRecords)
	limits.NegFrameBytes = int(cfg.NegFrame)
	limits.NegIdle = cfg.NegIdle
	limits.QueryTime = cfg.QueryTime
	limits.PingInterval = cfg.Ping
	limits.DrainTime = cfg.Shutdown
	limits.CompressFrom = int(cfg.CompressFrom)
	return relay.Config{
		Info: relay.Info{
			Name:        cfg.Name,
			Description: cfg.Description,
			PubKey:      cfg.PubKey,
			Contact:     cfg.Contact,
			Icon:        cfg.Icon,
			Software:    "talon",
			Version:     d.version,
			// By it a relay finds out that it has connected to itself.
			Extra: map[string]any{"self": self.String()},
		},
		Limits: limits,
		Domain: cfg.Domain,

		ChallengeOnConnect: cfg.AuthChallenge == "connect",

		Proxies: cfg.Proxies,
		Next:    next,
		About:   about,
		Log:     d.log,
	}
}
