package daemon

import "talon/host/admin"

// addresses returns the addresses with the highest number of accepted bytes of events today.
func (p *parts) addresses(limit int) (list []admin.AddressUsage) {
	for _, c := range p.counter.Addresses(limit) {
		list = append(list, admin.AddressUsage{Address: c.Key.String(), Bytes: c.N})
	}
	return list
}
