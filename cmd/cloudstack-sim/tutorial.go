// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import "github.com/csccm/csccm/pkg/version"

// tutorial is the text of --help. A test runs its shell commands.
const tutorial = `cloudstack-sim serves CloudStack's HTTP API like a management server 4.22 with
virtual routers: signatures, sessions, roles, jobs, states, error texts; in memory.

  1. Start it. It simulates a fresh installation of CloudStack with one zone;
     --world example also has the VMs of a small Kubernetes cluster.

       cloudstack-sim --integration-listen 127.0.0.1:8096 --admin-listen 127.0.0.1:8097 &

  2. Call it: as root admin without authentication on the integration port,

       curl -fsS 'http://127.0.0.1:8096/client/api?command=listZones&response=json'

     with a session (POST command=login, user admin, password password), or with
     cmk, Terraform, cloudstack-go or csccm, signed with the keys of a user:

       URL='http://127.0.0.1:8096/client/api?response=json'
       ADMIN=$(curl -fsS "$URL&command=listUsers" | grep -o '"id":"[^"]*"' | head -1 | cut -d'"' -f4)
       curl -fsS "$URL&command=registerUserKeys&id=$ADMIN"

  3. Inject faults, at start with --fault or at run time:

       curl -fsS -H 'Content-Type: application/json' http://127.0.0.1:8097/faults \
         -d '{"fault":"createLoadBalancerRule:job-fails:nth=3"}'

     COMMAND:KIND:OPTION=VALUE,... with the kinds error, cut-before, cut-after, delay, job-fails,
     job-never-ends, restart, throttled, maintenance, quota, capacity, router-refuses, nodes-not-ready,
     api-unreachable; the options nth, count, p, caller, and by kind delay, code, cserrorcode, text.

  4. List the recorded calls:

       curl -fsS 'http://127.0.0.1:8097/ledger?command=list*'

  5. Look at it (--ui), add latency (--profile), forward traffic (--data-path).

It does not simulate storage, the inside of routers, or TLS: use loopback. More:
` + version.Pages + "docs/contributing/simulator.md"
