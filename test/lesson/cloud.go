// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/csccm/csccm/pkg/simulator"
	"github.com/csccm/csccm/pkg/ui/terminal"
	"github.com/csccm/csccm/test/internal/must"
	"github.com/csccm/csccm/test/testenv"
)

// call makes a call as a user, or as the cloud's operator for "admin", and waits for its job. Words with = are
// parameters. Other words are fields; it returns their values, with a line for each object, sorted.
func (l *lesson) call(ctx context.Context, _ string, args []string) string {
	user, command := args[0], args[1]
	params, fields, answer := map[string]string{}, []string(nil), map[string]any{}
	for _, word := range args[2:] {
		if name, value, is := strings.Cut(word, "="); is {
			params[name] = value
		} else {
			fields = append(fields, word)
		}
	}

	if user == "admin" {
		answer = must.Get(l.cloud.Admin(ctx, command, params))
	} else {
		client := must.Get(l.cloud.Client(user))
		defer client.CloseIdleConnections()
		must.OK(client.Call(ctx, command, params, &answer))
		if job, is := answer["jobid"].(string); is {
			must.Get(client.Jobs().Wait(ctx, command, job))
		}
	}

	rows, lines := []any{answer}, []string(nil)
	for _, value := range answer {
		if list, is := value.([]any); is {
			rows = list
		}
	}

	for _, row := range rows {
		var cells []string
		for _, f := range fields {
			cells = append(cells, field(row, f))
		}
		lines = append(lines, strings.Join(cells, " "))
	}

	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// field returns a field of an object; nic.ipaddress is the address of its first NIC.
func field(value any, path string) string {
	for name := range strings.SplitSeq(path, ".") {
		if list, is := value.([]any); is && len(list) > 0 {
			value = list[0]
		}
		object, _ := value.(map[string]any)
		value = object[name]
	}
	return fmt.Sprint(value)
}

// rules returns the load balancer rules of a cluster's account, sorted by address and port.
func (l *lesson) rules(ctx context.Context, cluster string, _ []string) string {
	client := must.Get(l.cloud.Client(cluster))
	defer client.CloseIdleConnections()
	var lines []string
	for _, r := range must.Get(testenv.Rules(ctx, client, "")) {
		members := cmp.Or(strings.Join(r.Members, " "), "no members")
		lines = append(lines, fmt.Sprintf("%s:%d -> %d  %s", r.PublicIP, r.PublicPort, r.PrivatePort, members))
	}
	return cmp.Or(strings.Join(lines, "\n"), "no load balancer rules")
}

// forget resets the ledger.
func (l *lesson) forget(context.Context, string, []string) string {
	l.cloud.Ledger().Reset()
	return ""
}

// calls returns a user's calls with their purposes. The same call several times in a row is one line. A call that has
// no purpose or that was refused is an error.
func (l *lesson) calls(_ context.Context, _ string, args []string) string {
	calls := l.cloud.Ledger().Find("", args[0])
	lines := []string{fmt.Sprintf("%d calls of user %s:", len(calls), args[0])}
	for i := 0; i < len(calls); {
		c, first := calls[i], i+1
		must.Be(c.Status == http.StatusOK && c.ErrorCode == 0 && c.JobCode == 0, "%s was refused: %+v", c.Command, c)
		must.Be(l.Script.Purposes[c.Command] != "", "the lesson does not say what %s is for", c.Command)
		for i++; i < len(calls) && calls[i].Command == c.Command && parameters(calls[i]) == parameters(c); i++ {
		}
		number := strconv.Itoa(first)
		if i > first {
			number += "-" + strconv.Itoa(i)
		}
		line := fmt.Sprintf("%5s  %-25s %-55s %s", number, c.Command, l.Script.Purposes[c.Command], parameters(c))
		lines = append(lines, terminal.Cut(strings.TrimRight(line, " "), l.Width()))
	}
	return strings.Join(lines, "\n")
}

// parameters returns the parameters of a call that are of interest to a reader.
func parameters(c simulator.Call) string {
	switch p := c.Params; {
	case p["publicport"] != "":
		return p["publicport"] + " -> " + p["privateport"]
	case p["startport"] != "":
		return p["startport"] + " for " + p["cidrlist"]
	default:
		return p["resourcetype"]
	}
}
