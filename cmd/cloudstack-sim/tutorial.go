// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

// tutorial is the text of --help. A test runs its shell commands.
const tutorial = `cloudstack-sim answers CloudStack's HTTP API as a management server 4.22 with a
virtual router does: signatures, sessions, roles, asynchronous jobs, states,
error texts. It holds everything in memory and starts in milliseconds.

  1. Start it. It is a CloudStack right after its installation, with one zone;
     --world example has the VMs of a small Kubernetes cluster as well.

       cloudstack-sim --integration-listen 127.0.0.1:8096 --admin-listen 127.0.0.1:8097 &

  2. Call it: as root admin without credentials on the integration port,

       curl -fsS 'http://127.0.0.1:8096/client/api?command=listZones&response=json'

     with a session (POST command=login, user admin, password password), or with
     cmk, Terraform, cloudstack-go or csccm, signed with the keys of a user:

       URL='http://127.0.0.1:8096/client/api?response=json'
       ADMIN=$(curl -fsS "$URL&command=listUsers" | grep -o '"id":"[^"]*"' | head -1 | cut -d'"' -f4)
       curl -fsS "$URL&command=registerUserKeys&id=$ADMIN"

  3. Let something go wrong, from the start with --fault or while it runs:

       curl -fsS -H 'Content-Type: application/json' http://127.0.0.1:8097/faults \
         -d '{"fault":"createLoadBalancerRule:job-fails:nth=3"}'

     COMMAND:KIND:OPTION=VALUE,... with the kinds error, cut-before, cut-after,
     delay, job-fails, job-never-ends, restart, throttled, maintenance, quota,
     capacity, router-refuses; the options nth, count, p, caller, and by kind
     delay, code, cserrorcode, text.

  4. See what was called, and keep what has come about:

       curl -fsS 'http://127.0.0.1:8097/ledger?command=list*'
       curl -fsS http://127.0.0.1:8097/world > world.yaml     # --world world.yaml

  5. Make it slow (--profile production), or let it forward traffic (--data-path).

It does not simulate the inside of routers or storage. What it does not implement
answers error 530. It is made for loopback, without TLS. More: docs/simulator.md.`
