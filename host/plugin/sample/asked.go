package sample

import (
	"talon/host"
)

// The parts of a request as vectors have them.

type source struct {
	Origin  string   `json:"origin"`
	Address string   `json:"address,omitempty"`
	Relay   string   `json:"relay,omitempty"`
	Authed  []string `json:"authed,omitempty"`
}

func (m *mask) source(it *host.Item) *source {
	s := &source{Origin: host.FromClient.String(), Authed: hexes(it.Authed)}
	if from := it.Source; from != nil {
		s.Origin, s.Address, s.Relay = from.Origin.String(), m.address(from.Addr), from.Relay
	}
	return s
}

type client struct {
	Address   string   `json:"address,omitempty"`
	Authed    []string `json:"authed,omitempty"`
	UserAgent string   `json:"user_agent,omitempty"`
	Origin    string   `json:"origin,omitempty"`
	Path      string   `json:"path,omitempty"`
}

func (m *mask) client(c *host.Client) *client {
	if c == nil {
		return nil
	}
	return &client{m.address(c.Addr), hexes(c.Authed), c.UserAgent, c.Origin, c.Path}
}

// hexes writes ids and keys.
func hexes[T interface{ String() string }](list []T) (text []string) {
	for _, v := range list {
		text = append(text, v.String())
	}
	return text
}

// filter is a filter as NIP-01 writes it.
type filter map[string]any

func filterOf(f *host.Filter) filter {
	to := filter{}
	if f.IDs != nil {
		to["ids"] = hexes(f.IDs)
	}
	if f.Authors != nil {
		to["authors"] = hexes(f.Authors)
	}
	if f.Kinds != nil {
		to["kinds"] = f.Kinds
	}
	for _, tag := range f.Tags {
		to["#"+string(rune(tag.Name))] = tag.Values
	}
	if f.Since != nil {
		to["since"] = *f.Since
	}
	if f.Until != nil {
		to["until"] = *f.Until
	}
	if f.Limit >= 0 {
		to["limit"] = f.Limit
	}
	return to
}

type push struct {
	Repo        string   `json:"repo"`
	Maintainers []string `json:"maintainers,omitempty"`
	Updates     []update `json:"updates"`
	Bytes       int64    `json:"bytes,omitempty"`
	Stored      int64    `json:"stored,omitempty"`
	PRs         bool     `json:"prs,omitempty"`
}

type update struct {
	Ref string `json:"ref"`
	Old string `json:"old"`
	New string `json:"new"`
}

func pushOf(p *host.Push) *push {
	to := &push{Repo: p.Repo.String(), Maintainers: hexes(p.Maintainers), Bytes: p.Bytes, Stored: p.Stored, PRs: p.PRs}
	for _, u := range p.Updates {
		to.Updates = append(to.Updates, update{u.Ref, u.Old, u.New})
	}
	return to
}
