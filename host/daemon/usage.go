package daemon

import "talon/host/admin"

// addresses returns the addresses from which most bytes of events were accepted today.
func (p *parts) addresses(limit int) (list []admin.AddressUsage) {
	for _, c := range p.counter.Addresses(limit) {
		list = append(list, admin.AddressUsage{Address: c.Key.String(), Bytes: c.N})
	}
	return list
}
