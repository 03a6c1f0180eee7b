// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"io"
	"math/big"
	"net"
	"net/http"
	"time"

	"github.com/quic-go/quic-go/http3"
	"golang.org/x/net/dns/dnsmessage"

	"github.com/csccm/csccm/test/internal/must"
)

const (
	echoPort  = ":8083"
	dnsPort   = ":8053"
	https     = ":8443"
	lineEcho  = ":8084"
	maxPacket = 1 << 16
)

// startDatagrams starts the servers of protocols beside HTTP over TCP: UDP echo, TCP echo, DNS, HTTP/3 and HTTP/2.
func startDatagrams(ctx context.Context, handler http.Handler, failed chan<- error) (err error) {
	defer must.Return(&err)
	answers := map[string]func(client string, question []byte) []byte{
		echoPort: func(client string, _ []byte) []byte {
			b, _ := json.Marshal(seen(client)) // strings alone
			return b
		},
		dnsPort: func(client string, question []byte) []byte { return resolve(seen(client)["node"], question) },
	}
	for at, answer := range answers {
		c := must.Get((&net.ListenConfig{}).ListenPacket(ctx, "udp", at))
		go func() { failed <- serveUDP(c, answer) }()
	}
	l := must.Get((&net.ListenConfig{}).Listen(ctx, "tcp", lineEcho))
	go func() { failed <- serveTCP(l) }()
	cert := must.Get(selfSigned())
	config := &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS13}
	two := &http.Server{Addr: https, Handler: handler, TLSConfig: config, ReadHeaderTimeout: 10 * time.Second}
	go func() { failed <- two.ListenAndServeTLS("", "") }()
	three := &http3.Server{Addr: https, Handler: handler, TLSConfig: http3.ConfigureTLSConfig(config)}
	go func() { failed <- three.ListenAndServe() }()
	return nil
}

func serveUDP(c net.PacketConn, answer func(string, []byte) []byte) (err error) {
	defer must.Return(&err)
	buffer := make([]byte, maxPacket)
	for {
		n, from := must.Get2(c.ReadFrom(buffer))
		client, _, _ := net.SplitHostPort(from.String())
		if b := answer(client, buffer[:n]); b != nil {
			_, _ = c.WriteTo(b, from)
		}
	}
}

// serveTCP echoes what it gets.
func serveTCP(l net.Listener) (err error) {
	defer must.Return(&err)
	for {
		c := must.Get(l.Accept())
		go func() {
			defer func() { _ = c.Close() }()
			_, _ = io.Copy(c, c)
		}()
	}
}

// resolve answers each question for a TXT record with a text; it returns nil for what is no question.
func resolve(text string, question []byte) []byte {
	var m dnsmessage.Message
	if m.Unpack(question) != nil || m.Response {
		return nil
	}
	m.Response, m.Authoritative, m.Additionals = true, true, nil
	for _, q := range m.Questions {
		if q.Type == dnsmessage.TypeTXT {
			m.Answers = append(m.Answers, dnsmessage.Resource{
				Header: dnsmessage.ResourceHeader{Name: q.Name, Class: q.Class}, Body: &dnsmessage.TXTResource{TXT: []string{text}},
			})
		}
	}
	b, err := m.Pack()
	if err != nil {
		return nil
	}
	return b
}

// selfSigned returns a certificate that no client can check.
func selfSigned() (_ tls.Certificate, err error) {
	defer must.Return(&err)
	key := must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{"echo"}, NotAfter: time.Now().AddDate(1, 0, 0)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, err
}
