package relay

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"strings"
)

// infoType is the media type of the relay information document (NIP-11).
const infoType = "application/nostr+json"

// supportedNIPs are those that a client of this relay sees.
var supportedNIPs = []int{1, 9, 11, 40, 42, 45, 70, 77}

// document builds the information document.
func (c *Config) document() ([]byte, error) {
	l := &c.Limits
	limitation := map[string]any{
		"max_message_length": l.MessageBytes,
		"max_subscriptions":  l.Subscriptions,
		"max_filters":        l.Wire.Filters,
		"max_limit":          l.MaxLimit,
		"default_limit":      l.DefaultLimit,
		"max_subid_length":   l.Wire.SubID,
		"min_pow_difficulty": 0,
		"auth_required":      false,
		"payment_required":   false,
		"restricted_writes":  c.Info.RestrictedWrites,

		// These have no field in NIP-11.
		"max_filter_values":            l.Wire.Values,
		"max_subscription_values":      l.Values,
		"max_subscriptions_total":      l.SubscriptionsTotal,
		"max_connections":              l.Connections,
		"max_connections_per_address":  l.ConnectionsPerAddr,
		"max_messages_per_second":      l.MessagesPerSecond,
		"max_message_burst":            l.MessageBurst,
		"max_bad_messages":             l.BadMessages,
		"max_queue_bytes":              l.QueueBytes,
		"max_events_in_flight":         l.EventsInFlight,
		"max_authenticated_keys":       l.AuthedKeys,
		"max_negentropy_sessions":      l.NegSessions,
		"max_negentropy_total":         l.NegSessionsTotal,
		"max_negentropy_records":       l.NegRecords,
		"max_negentropy_frame_bytes":   l.NegFrameBytes,
		"negentropy_idle_seconds":      l.NegIdle.Seconds(),
		"max_query_seconds":            l.QueryTime.Seconds(),
		"max_message_seconds":          l.MessageTime.Seconds(),
		"ping_after_seconds_of_idling": l.PingInterval.Seconds(),
	}
	maps.Copy(limitation, c.Info.Limitation)
	doc := map[string]any{
		"supported_nips": supportedNIPs,
		"limitation":     limitation,
	}
	for name, value := range map[string]string{
		"name":        c.Info.Name,
		"description": c.Info.Description,
		"pubkey":      c.Info.PubKey,
		"contact":     c.Info.Contact,
		"icon":        c.Info.Icon,
		"software":    c.Info.Software,
		"version":     c.Info.Version,
	} {
		if value != "" {
			doc[name] = value
		}
	}
	maps.Copy(doc, c.Info.Extra)
	text, err := json.Marshal(doc)
	if err != nil {
		return nil, fmt.Errorf("encode relay information: %w", err)
	}
	return text, nil
}

// wantsInfo reports whether the client accepts the information document, whatever
// else it accepts.
func wantsInfo(req *http.Request) bool {
	if req.Method != http.MethodGet && req.Method != http.MethodHead {
		return false
	}
	for _, accept := range req.Header.Values("Accept") {
		if strings.Contains(strings.ToLower(accept), infoType) {
			return true
		}
	}
	return false
}

// allowOrigins lets web pages of any origin read the answer, preflight or not.
func allowOrigins(h http.Header) {
	h.Set("Access-Control-Allow-Origin", "*")
	h.Set("Access-Control-Allow-Methods", "GET, HEAD, POST, OPTIONS")
	h.Set("Access-Control-Allow-Headers", "Content-Type, Authorization, Git-Protocol, Accept, Content-Encoding, X-Requested-With")
}

func (r *Relay) serveInfo(w http.ResponseWriter, req *http.Request) {
	h := w.Header()
	h.Set("Content-Type", infoType)
	h.Set("Vary", "Accept")
	if req.Method == http.MethodHead {
		return
	}
	if _, err := w.Write(r.info); err != nil {
		r.cfg.Log.Debug("send relay information", "err", err)
	}
}
