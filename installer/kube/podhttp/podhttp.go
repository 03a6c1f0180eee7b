// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package podhttp asks Pods over HTTPS as the user of the kubeconfig. The API server's proxy hands no identity on, so the
// request goes through a forwarded port: the API server and the kubelet only carry it.
package podhttp

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/httpstream" //nolint:staticcheck // client-go's dialer has these types
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
)

// maxBody bounds an answer. Metrics of a controller are some hundred KB.
const maxBody = 16 << 20

// Get asks a port of a Pod for a path. It shows the Pod the client certificate of the configuration, and
// sends nothing that the Pod could use itself.
// The Pod's certificate is not verified: a controller signs its own, and its name is that of no Pod.
func Get(ctx context.Context, kube kubernetes.Interface, config *rest.Config, pod *corev1.Pod, port int, path string) ([]byte, error) {
	if config.Impersonate.UserName != "" {
		return nil, errors.New("a Pod does not know impersonation (--as)")
	}
	t := &http.Transport{DisableKeepAlives: true}
	if err := identify(config, t); err != nil {
		return nil, err
	}
	c, err := dial(ctx, kube, config, pod, port)
	if err != nil {
		return nil, fmt.Errorf("forward a port to Pod %s: %w", pod.Name, err)
	}
	t.DialContext = func(context.Context, string, string) (net.Conn, error) { return c, nil }
	body, err := get(ctx, t, "https://"+pod.Name+"/"+path)
	_ = c.Close()
	if err != nil {
		if why := <-c.failed; why != "" {
			err = errors.New(why)
		}
		return nil, fmt.Errorf("ask Pod %s: %w", pod.Name, err)
	}
	return body, nil
}

func get(ctx context.Context, t http.RoundTripper, url string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return nil, err
	}
	resp, err := t.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxBody))
	if err == nil && resp.StatusCode != http.StatusOK {
		text, _, _ := strings.Cut(strings.TrimSpace(string(body)), "\n")
		err = fmt.Errorf("%s: %s", resp.Status, text)
	}
	return body, err
}

// errNoCertificate is returned where only a token could say who asks. A token is not sent: the Pod could use it elsewhere.
var errNoCertificate = errors.New("the kubeconfig has no client certificate, and its token is not sent to a Pod")

// identify makes a transport show the user's client certificate.
func identify(config *rest.Config, t *http.Transport) error {
	known, err := rest.TLSConfigFor(config)
	if err != nil {
		return err
	}
	if known == nil || len(known.Certificates) == 0 && known.GetClientCertificate == nil {
		return errNoCertificate
	}
	t.TLSClientConfig = &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12} // #nosec G402 -- see Get
	t.TLSClientConfig.Certificates, t.TLSClientConfig.GetClientCertificate = known.Certificates, known.GetClientCertificate
	return nil
}

// conn is one connection to a port of a Pod.
type conn struct {
	httpstream.Stream // data
	all               httpstream.Connection
	failed            chan string // receives the kubelet's reason for the end of the connection; "" if there is none
}

// dial forwards a connection by a WebSocket, which is a GET: connections that only read may do it.
func dial(ctx context.Context, kube kubernetes.Interface, config *rest.Config, pod *corev1.Pod, port int) (*conn, error) {
	url := kube.CoreV1().RESTClient().Get().Resource("pods").Namespace(pod.Namespace).Name(pod.Name).SubResource("portforward").URL()
	dialer, err := portforward.NewSPDYOverWebsocketDialer(url, config)
	if err != nil {
		return nil, err
	}
	type dialed struct {
		c   httpstream.Connection
		err error
	}
	done := make(chan dialed, 1)
	go func() { // the dialer takes no context
		c, _, err := dialer.Dial(portforward.PortForwardProtocolV1Name)
		done <- dialed{c, err}
	}()
	select {
	case d := <-done:
		if d.err != nil {
			return nil, d.err
		}
		return open(d.c, port)
	case <-ctx.Done():
		go func() {
			if d := <-done; d.err == nil {
				_ = d.c.Close()
			}
		}()
		return nil, ctx.Err()
	}
}

// open opens the two streams of a connection to a port.
func open(all httpstream.Connection, port int) (*conn, error) {
	headers := http.Header{}
	headers.Set(corev1.StreamType, corev1.StreamTypeError)
	headers.Set(corev1.PortHeader, strconv.Itoa(port))
	headers.Set(corev1.PortForwardRequestIDHeader, "0")
	c := &conn{all: all, failed: make(chan string, 1)}
	reasons, err := all.CreateStream(headers)
	if err == nil {
		_ = reasons.Close() // nothing is sent there
		headers.Set(corev1.StreamType, corev1.StreamTypeData)
		c.Stream, err = all.CreateStream(headers)
	}
	if err != nil {
		return nil, errors.Join(err, all.Close())
	}
	go func() {
		why, _ := io.ReadAll(io.LimitReader(reasons, maxBody))
		c.failed <- strings.TrimSpace(string(why))
	}()
	return c, nil
}

// Close ends the connection with all its streams.
func (c *conn) Close() error {
	_ = c.Reset()
	return c.all.Close()
}

// The rest makes it a net.Conn. A context that ends closes it, so that it needs no deadlines.

func (*conn) LocalAddr() net.Addr              { return address{} }
func (*conn) RemoteAddr() net.Addr             { return address{} }
func (*conn) SetDeadline(time.Time) error      { return nil }
func (*conn) SetReadDeadline(time.Time) error  { return nil }
func (*conn) SetWriteDeadline(time.Time) error { return nil }

type address struct{}

func (address) Network() string { return "portforward" }
func (address) String() string  { return "Pod" }
