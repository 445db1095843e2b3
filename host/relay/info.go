package relay

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"talon/host"
)

// infoType is the media type of the relay information document (NIP-11).
const infoType = "application/nostr+json"

// supportedNIPs are those that a client of any relay of ours sees.
var supportedNIPs = []int{1, 9, 11, 40, 42, 45, 50, 59, 62, 67, 70, 77}

// NIPs returns the numbers of the NIPs that the relay supports, apart from those of
// policies.
func NIPs() []int { return slices.Clone(supportedNIPs) }

// gitNIP is about git repositories. It works where the policy serves them.
const gitNIP = 34

// nips returns the sorted numbers of the NIPs that the document lists, for a policy that
// implements grasps.
func nips(grasps []string, others []int) []int {
	list := append(NIPs(), others...)
	if len(grasps) > 0 {
		list = append(list, gitNIP)
	}
	slices.Sort(list)
	return list
}

// grasps returns the specifications of GRASP that all parts of a policy implement, sorted, each
// once.
func grasps(about []host.Description) []string {
	var list []string
	for _, d := range about {
		list = append(list, d.Grasps...)
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// said joins what the parts of a policy say of one thing.
func said(about []host.Description, of func(*host.Description) string) string {
	var texts []string
	for i := range about {
		if text := of(&about[i]); text != "" {
			texts = append(texts, text)
		}
	}
	return strings.Join(texts, "\n")
}

// restricted reports whether clients must know the rules before they write here. The first policy
// with an answer decides. If no policy has one, a policy with criteria has rules.
func restricted(about []host.Description) bool {
	if l := limits(about); l.MinPowDifficulty > 0 {
		return true
	}
	for i := range about {
		if about[i].Writes != host.WritesUnsaid {
			return about[i].Writes == host.WritesRestricted
		}
	}
	return said(about, func(d *host.Description) string { return d.Criteria }) != ""
}

// limits returns the strictest figures of all parts of a policy.
func limits(about []host.Description) (l host.Limitation) {
	for i := range about {
		l = l.Stricter(about[i].Limits)
	}
	return l
}

// summary describes a relay whose operator does not: by what the policy says, without line
// breaks.
func summary(about []host.Description) string {
	list := grasps(about)
	text := "A nostr relay."
	if len(list) > 0 {
		text = "A nostr relay and git server (" + strings.Join(list, ", ") + ")."
	}
	accepted := said(about, func(d *host.Description) string { return d.Criteria })
	switch {
	case accepted != "":
		text += " Accepted here: " + accepted
	case restricted(about):
		text += " Not every event is accepted here."
	}
	if chosen := said(about, func(d *host.Description) string { return d.Curation }); chosen != "" {
		text += " " + chosen
	}
	return strings.ReplaceAll(text, "\n", " ")
}

// document builds the information document, with what the policy says of itself
// (GRASP-01).
func (c *Config) document(about []host.Description) ([]byte, error) {
	l, own := &c.Limits, limits(about)
	criteria := said(about, func(d *host.Description) string { return d.Criteria })
	limitation := map[string]any{
		"max_message_length": l.MessageBytes,
		"max_subscriptions":  l.Subscriptions,
		"max_filters":        l.Wire.Filters,
		"max_limit":          l.MaxLimit,
		"default_limit":      l.DefaultLimit,
		"max_subid_length":   l.Wire.SubID,
		"min_pow_difficulty": own.MinPowDifficulty,
		"auth_required":      own.AuthRequired,
		"payment_required":   false,
		"restricted_writes":  restricted(about),

		// These have no field in NIP-11.
		"max_filter_values":             l.Wire.Values,
		"max_subscription_values":       l.Values,
		"max_subscription_values_total": l.ValuesTotal,
		"max_subscriptions_total":       l.SubscriptionsTotal,
		"max_equal_subscriptions":       l.EqualSubscriptions,
		"max_connections":               l.Connections,
		"max_connections_per_address":   l.ConnectionsPerAddr,
		"max_messages_per_second":       l.MessagesPerSecond,
		"max_message_burst":             l.MessageBurst,
		"query_costs_messages":          queryCost,
		"max_queries_per_second":        l.MessagesPerSecond / queryCost,
		"max_bad_messages":              l.BadMessages,
		"max_queue_bytes":               l.QueueBytes,
		"max_events_in_flight":          l.EventsInFlight,
		"max_authenticated_keys":        l.AuthedKeys,
		"max_negentropy_sessions":       l.NegSessions,
		"max_negentropy_total":          l.NegSessionsTotal,
		"max_negentropy_records":        l.NegRecords,
		"max_negentropy_frame_bytes":    l.NegFrameBytes,
		"negentropy_idle_seconds":       l.NegIdle.Seconds(),
		"max_query_seconds":             l.QueryTime.Seconds(),
		"max_message_seconds":           l.MessageTime.Seconds(),
		"ping_after_seconds_of_idling":  l.PingInterval.Seconds(),
	}
	for name, n := range map[string]int64{
		"max_content_length": own.MaxContentLength, "max_event_tags": own.MaxEventTags,
		"created_at_lower_limit": own.CreatedAtLowerLimit, "created_at_upper_limit": own.CreatedAtUpperLimit,
	} {
		if n > 0 {
			limitation[name] = n
		}
	}
	maps.Copy(limitation, c.Info.Limitation)
	doc := map[string]any{
		"limitation": limitation,
	}
	list := grasps(about)
	doc["supported_nips"] = nips(list, c.Info.NIPs)
	if len(list) > 0 {
		doc["supported_grasps"] = list
	}
	for name, value := range map[string]string{
		"name":        c.Info.Name,
		"description": cmp.Or(c.Info.Description, summary(about)),
		"pubkey":      c.Info.PubKey,
		"contact":     c.Info.Contact,
		"icon":        c.Info.Icon,
		"software":    c.Info.Software,
		"version":     c.Info.Version,

		"repo_acceptance_criteria": criteria,
		"curation":                 said(about, func(d *host.Description) string { return d.Curation }),
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

func (r *Relay) serveInfo(w http.ResponseWriter, req *http.Request) {
	h := w.Header()
	h.Set("Content-Type", infoType)
	h.Set("Vary", "Accept")
	if req.Method == http.MethodHead {
		return
	}
	info := r.info
	if r.cfg.About != nil {
		var err error
		if info, err = r.cfg.document(r.cfg.About()); err != nil {
			r.cfg.Log.Error("answer with relay information", "err", err)
			info = r.info
		}
	}
	if _, err := w.Write(info); err != nil {
		r.cfg.Log.Debug("send relay information", "err", err)
	}
}
