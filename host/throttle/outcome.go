package throttle

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"os"

	"talon/sdk/abi"
)

// Outcome returns what an error of the network is to the module, OutcomeUnspecified if it is
// none that says what has happened. A name that our resolver could not look up is no name
// that does not exist.
func Outcome(err error) uint32 {
	var dns *net.DNSError
	var network net.Error
	switch {
	case errors.As(err, &dns) && (dns.IsTimeout || dns.IsTemporary):
		return abi.OutcomeUnreachable
	case errors.As(err, &dns):
		return abi.OutcomeDNS
	case errors.As(err, new(*tls.CertificateVerificationError)), errors.As(err, new(tls.RecordHeaderError)),
		errors.As(err, new(tls.AlertError)), errors.As(err, new(x509.UnknownAuthorityError)),
		errors.As(err, new(x509.HostnameError)), errors.As(err, new(x509.CertificateInvalidError)):
		return abi.OutcomeTLS
	case errors.As(err, &network) && network.Timeout(), errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded):
		return abi.OutcomeTimeout
	}
	return abi.OutcomeUnspecified
}
