// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package echo is the server and the client of csccm test. The server runs in a Pod behind a load balancer and answers
// with the Pod's name, the client's address, and whether the PROXY protocol named the client.
package echo

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/textproto"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// Flags that make the controller's program act as a Pod of csccm test.
const (
	ServeFlag = "load-balancer-test-serve"
	AskFlag   = "load-balancer-test-ask"
	TokenFlag = "load-balancer-test-token" // #nosec G101 -- a name; the token distinguishes test runs and is no secret
)

const (
	word     = "csccm-test"
	connTime = 10 * time.Second
	maxRead  = 512 // bytes of a connection
	pause    = 500 * time.Millisecond
)

// Answer is the server's answer.
type Answer struct {
	Address string `json:"address"` // the address that was called
	Pod     string `json:"pod,omitempty"`
	Client  string `json:"client,omitempty"`  // as the server sees it
	Proxied bool   `json:"proxied,omitempty"` // the PROXY protocol named the client
	Error   string `json:"error,omitempty"`
}

// Serve answers on a listener until ctx ends. It answers only clients that send the token.
func Serve(ctx context.Context, l net.Listener, token, pod string) error {
	stop := context.AfterFunc(ctx, func() { _ = l.Close() })
	defer stop()
	for {
		c, err := l.Accept()
		if err != nil {
			if ctx.Err() != nil {
				return nil // told to stop
			}
			return err
		}
		go func() {
			defer c.Close() //nolint:errcheck // the answer was written or not
			_ = c.SetDeadline(time.Now().Add(connTime))
			reply(c, token, pod)
		}()
	}
}

func reply(c net.Conn, token, pod string) {
	in := reader(c)
	line, _ := in.ReadLine() // a health check of the load balancer sends nothing
	client, proxied := c.RemoteAddr().String(), "no"
	if f := strings.Fields(line); len(f) == 6 && f[0] == "PROXY" { // the header of version 1 of the PROXY protocol
		client, proxied = net.JoinHostPort(f[2], f[4]), "yes"
		line, _ = in.ReadLine()
	}
	if line == word+" "+token {
		_, _ = fmt.Fprintf(c, "%s %s %s %s\n", word, pod, client, proxied)
	}
}

func reader(c net.Conn) *textproto.Reader {
	return textproto.NewReader(bufio.NewReader(io.LimitReader(c, maxRead)))
}

// ask makes one request.
func ask(ctx context.Context, address, token string) (Answer, error) {
	d := net.Dialer{Timeout: connTime}
	c, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return Answer{}, err
	}
	defer c.Close() //nolint:errcheck // nothing is left to be written
	_ = c.SetDeadline(time.Now().Add(connTime))
	if _, err := fmt.Fprintf(c, "%s %s\n", word, token); err != nil {
		return Answer{}, err
	}

	line, err := reader(c).ReadLine()
	if err != nil {
		return Answer{}, fmt.Errorf("connected to %s, but no answer came: %w", address, err)
	}

	f := strings.Fields(line)
	if len(f) != 4 || f[0] != word {
		return Answer{}, fmt.Errorf("something else answers at %s", address)
	}

	return Answer{Address: address, Pod: f[1], Client: f[2], Proxied: f[3] == "yes"}, nil
}

// Ask repeats the request until there is an answer or ctx ends: a load balancer needs a moment to apply a new rule.
func Ask(ctx context.Context, address, token string) (answer Answer, err error) {
	var last error
	err = wait.PollUntilContextCancel(ctx, pause, true, func(ctx context.Context) (bool, error) {
		a, err := ask(ctx, address, token)
		if ctx.Err() == nil || last == nil {
			answer, last = a, err
		}
		return err == nil, nil
	})
	if err != nil {
		return Answer{Address: address, Error: last.Error()}, errors.Join(last, context.Cause(ctx))
	}
	return answer, nil
}
