// Command rlock runs programs under locks on Redis or Valkey, and shows who holds which lock: for shells, for
// cron, and for people on call.
//
//	export RLOCK_URL=redis://localhost:6379
//	rlock run -n backup -- pg_dump -f /backup/db.sql db
//
// # Install
//
//	go install github.com/rlock-go/toolkit/rlock/cmd/rlock@main
//
// # Commands
//
//	rlock run KEY [KEY…] -- CMD [ARG…]        run CMD under the lock of KEY
//	rlock acquire KEY                         take a lock and print its token
//	rlock extend KEY TOKEN                    give the lock a new lease
//	rlock release KEY TOKEN                   free the lock
//	rlock force-release KEY --token TOKEN     free another holder's lock
//	rlock force-release --owner TEXT PATTERN  free all locks of a dead owner
//	rlock wait KEY                            wait until the lock is free
//	rlock who KEY [KEY…]                      show the holder and the queue
//	rlock ls PATTERN                          list the held locks
//	rlock probe                               check whether the server suits locks
//	rlock help [COMMAND]                      print the manual of a command
//	rlock version                             print the version of rlock
//
// A lock is a plain string key of the server with the name KEY. Programs that use package rlock share these
// locks. Flags may stand before or after the keys, with one dash or two. Every command has three flags:
// --json prints JSON, -h prints the usage and the flags, and --help prints the manual. rlock --version is
// rlock version.
//
// # Connection
//
// The environment variable RLOCK_URL names the server. If it is not set, rlock reads REDIS_URL. There is no
// flag, because arguments show a password to every user of the machine. There is no default, because a lock
// on the wrong server excludes no caller.
//
//	redis://[USER[:PASSWORD]@]HOST[:PORT][/DATABASE][?OPTION=VALUE&…]
//	rediss://…                     the same with TLS
//	unix://[USER[:PASSWORD]@]/PATH/OF/SOCKET[?OPTION=VALUE&…]
//
// valkey:// means redis://, and valkeys:// means rediss://. The default port is 6379. Put a colon before a
// password without a user: redis://:PASSWORD@HOST. Percent-encode / # ? @ and % in a user or password, for
// example %2F for a slash. Options:
//
//	addr=HOST:PORT              one more address of the cluster, or one more sentinel; may be repeated
//	master_set=NAME             the addresses are sentinels that know the primary by this name
//	sentinel_username=USER      the user for the sentinels
//	sentinel_password=PASSWORD  the password for the sentinels; PASSWORD before the @ is the primary's
//	db=NUMBER                   the same as /DATABASE
//	dial_timeout=5s             the longest time for a connection
//	write_timeout=5s            the longest silence of the server; the default fits --ttl, at most 5s
//	client_name=NAME            the name in CLIENT LIST
//	protocol=2                  speak RESP2, for proxies without RESP3
//	client_cache=0              no client-side cache, for servers without CLIENT TRACKING
//	max_retries=0               never repeat a read
//	skip_verify=true            do not verify the servers' certificates; for tests only
//
// For a Redis Cluster one address is enough. Several addresses without master_set must be of one cluster:
//
//	RLOCK_URL='redis://10.0.0.1:7000?addr=10.0.0.2:7000&addr=10.0.0.3:7000'
//	RLOCK_URL='redis://:PASSWORD@sentinel-1:26379?addr=sentinel-2:26379&master_set=main'
//
// With rediss://, the certificate of every server must have the name of the first HOST. rlock trusts the
// certificate authorities of the system, or of SSL_CERT_FILE and SSL_CERT_DIR. The variables below name
// files. Each connection reads the password, the certificate and the key again, so you may replace the files
// while
// CMD runs:
//
//	RLOCK_PASSWORD_FILE  its only line is the password; the URL has the user: redis://USER@HOST
//	RLOCK_TLS_CERT       rlock's certificate in PEM, which Redis demands by default
//	RLOCK_TLS_KEY        the key of this certificate
//	RLOCK_TLS_CA         certificate authorities that replace the system's
//
// An unreachable server. rlock run, acquire and wait retry each second until -w ends, without -w for ever.
// They report the failure once on standard error, and exit with 125 when -w ends. With -n, and in all other
// commands, rlock tries once. A wrong password or certificate always ends rlock at once.
//
// # Exit codes
//
//	  0  success
//	  1  probe found a fault
//	 75  the lock was not acquired in time, or is still held; -E chooses another code
//	 76  the lock was lost, or the token is not its holder's
//	125  rlock failed: wrong arguments, no server, or an error of the server; -E does not change it
//	126  CMD cannot be executed
//	127  CMD is not found
//	128+N  signal N ended CMD, or ended rlock while it waited: 130 is SIGINT, 143 SIGTERM
//
// Otherwise rlock run exits with the code of CMD. If CMD uses codes above 74, -v or --json show which program
// set the code.
//
// # Waiting at a terminal
//
// While rlock run, acquire or wait waits, a terminal on standard error shows a status line:
//
//	waiting for job, 12s of 5m, place 2/3; held by web-3 pid 47 rlock: sort, 29s left, extended, for over 12s
//
// "extended" means that the end of the lease has moved since rlock first saw the holder. "for over" counts
// from then, because the server does not store the time of the grant. rlock updates the line once a second
// with one command to the server, and erases the line at the end. A narrow terminal gets fewer words and
// shorter names. The line shows the place if exactly one waiter has the owner text of this command. If
// not, the line shows the number of waiters. rlock acquire has an owner text only with --owner. rlock shows
// nothing with -n or
// in the background. If TERM is dumb or not set, it prints a message for each new holder. With --json, or
// with -v if standard error is no terminal, it prints one message.
//
// # JSON
//
// With --json, each line of standard output and of standard error is one JSON object. If a key is not UTF-8,
// key_base64 has its bytes. Times left are in milliseconds, or null if the lock never expires. Each command
// below lists its fields. rlock run leaves standard output to CMD. Errors go to standard error:
// {"event":"error","message":"…","code":125}.
//
// # rlock run
//
//	rlock run [FLAG…] KEY [KEY…] -- CMD [ARG…]
//
// takes the lock of KEY, runs CMD, extends the lease while CMD runs, and releases the lock after CMD. Waiters
// on all machines get the lock first come, first served. If there are several KEYs, rlock takes all of them
// or none. On a cluster they may be in different slots. Flags:
//
//	--shared          share the lock with others who say --shared
//	--limit N         take one of N permits: at most N commands at a time
//	--permits M       take M of the permits in one step
//	--min-hold 10m    exclude others for this time even if CMD ends earlier
//	--ttl 30s         the lease: how long the lock outlives a dead machine
//	-w, --wait 30s    give up after this time; without it, wait for ever
//	-n, --no-wait     do not wait at all
//	-E, --conflict-exit-code 75  the exit code if the lock was not acquired
//	--owner TEXT      the owner that rlock who shows
//	--signal TERM     how CMD is told to stop: a name or a number
//	--kill-after 5s   how long CMD may take to stop before it is killed
//	--key KEY         one more key, for a key that begins with a dash
//	-v, --verbose     report on standard error what happens to the lock
//	--json            write JSON
//
// Without --owner, the owner is the host, the process and the name of CMD. rlock executes CMD without a
// shell. For a pipe or a variable, name the shell:
//
//	rlock run -n report -- sh -c 'make-report | mail -s report team'
//
// CMD inherits all open files and the environment of rlock, and gets these variables:
//
//	RLOCK_KEY    the key; of several keys, one in each line
//	RLOCK_TOKEN  the token of the holder
//	RLOCK_FENCE  a number larger than every earlier holder's, the same for all who share the lock
//
// A resource that refuses smaller fences is safe from a holder that does not know of its loss. If CMD runs
// rlock run for a key of RLOCK_KEY again while RLOCK_TOKEN holds this key, the inner rlock exits with 125.
// CMD could otherwise wait for itself for ever. When CMD ends, rlock releases the lock. Programs that CMD
// left in the background go on without the
// lock.
//
// Sharing. With --shared, any number of commands hold the lock together. A command without --shared waits
// until all of them end, and later commands with --shared wait behind it. With --limit, at most N commands
// run at a time on all machines. A dead machine keeps its share until its lease ends:
//
//	rlock run --shared data -- make-report           # several at a time
//	rlock run data -- import                         # alone
//	rlock run --limit 4 build -- make                # four at a time
//	rlock run --limit 4 --permits 2 build -- make    # counts as two of the four
//
// A key has either readers or permits at a time. A command for the other kind waits until all shares end.
// Each command with --limit has its own N. It gets its permits if they and the
// permits in use are at most N together. So use
// one N for a key. --shared and --limit allow only one KEY. If CMD needs two keys, run one
// rlock run under the other, with the keys in the same order everywhere.
//
// Signals. CMD runs in its own process group. rlock passes SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1 and
// SIGUSR2 to the group, and waits until CMD ends. An ignored signal, as under nohup, stays ignored. Before
// CMD starts, a signal or the end of -w ends rlock at once. If the server grants the lock in that moment,
// rlock frees it. rlock waits for that a sixth of a second at most. If the lock is not free by then, it ends
// with its lease.
//
// In a terminal the group becomes the foreground group. CMD can read from the terminal, Ctrl-C reaches CMD,
// and Ctrl-Z suspends CMD and rlock together. A suspended rlock cannot extend the lease. If the lease ends
// meanwhile, rlock kills CMD before CMD can continue.
//
// Losing the lock. If rlock cannot extend the lease, it sends CMD the signal of --signal before the lease
// ends. CMD then has the time of --kill-after to stop. When this time is over, rlock kills the whole group.
// The lease ends only after that, so no next holder can begin before. rlock counts the lease on its own
// clock. --ttl must be at least three times the sum of
// --kill-after and 100 ms. If the key is deleted or an operator uses force-release, the server reports the
// loss, and CMD gets the signal at once. The holder of a share learns of its loss at its next extension,
// after a third of --ttl. The exit code is 76 whatever CMD returns, also if rlock notices the loss when CMD
// has already ended. After rlock has stopped CMD, it exits at once. Keys that it cannot free at once stay
// until their lease ends.
//
// In a container rlock may be the first process, as in ENTRYPOINT ["rlock", "run", "import", "--", "CMD"].
// rlock reaps the processes that CMD leaves. The signals above also reach a waiting rlock.
//
// Limits. If SIGSTOP stops rlock or the machine sleeps, CMD may run without a lease until rlock continues and
// kills it. If SIGKILL ends rlock, the lock stays until its lease ends, at most --ttl later. On Linux the
// kernel then kills CMD at once, but not the children of CMD, and not a set-user-ID CMD. On other systems CMD
// runs on without a lock. If that does harm, let the resource refuse smaller fences. Windows has no signals
// of this kind and no process groups. There CMD shares the console of rlock, and gets Ctrl-C from the
// console. rlock ends CMD at once instead of stopping it, and the children of CMD go on.
//
// In a crontab, -n skips a run while the last run goes on, on any machine. With -E 0, a skipped run prints
// nothing, so cron sends no mail. Cron has its own PATH, most often /usr/bin:/bin. Add the directory of
// rlock, which is ~/go/bin after go install:
//
//	RLOCK_URL=redis://redis.internal:6379
//	PATH=/home/me/go/bin:/usr/bin:/bin
//	*/5 * * * *  rlock run -n -E 0 import -- /usr/local/bin/import
//	0 3 * * *    rlock run -n -E 0 --ttl 10m --min-hold 10m nightly -- /usr/local/bin/nightly
//
// --min-hold runs a job once for all machines. Clocks differ, so a short job can end on one machine before
// another machine starts it. rlock keeps the lock for this time after the grant, whether CMD succeeds or
// fails. --ttl must be at least as long, so that a dead machine excludes others too. If CMD cannot start,
// rlock frees the lock at once. When CMD has ended, the command rlock who still shows the owner, and the
// command rlock force-release frees the lock early.
//
// Objects of --json have event and message, and those about the lock have keys. More fields: contended has
// owner and remaining_ms, acquired has fence and waited_ms, and stopping and killed have reason. exited has
// code, and signal if a signal ended CMD. kept comes with --min-hold instead of released, and has
// remaining_ms. error has code. The other events are unreachable, connected, short_lease, polling and
// suspended.
//
// # rlock acquire
//
//	rlock acquire [--shared | --limit N [--permits M]] [--ttl 30s]
//	              [-w 30s | -n] [-E 75] [--owner TEXT] [--json] KEY
//
// takes the lock of KEY, or a share of it, and prints its token. rlock does not extend the lease, so --ttl
// must be long enough for the work. For scripts that do not fit one rlock run:
//
//	token=$(rlock acquire --ttl 10m -w 1m deploy) || exit
//	rlock extend deploy "$token" --ttl 10m || exit             # between two steps of the work
//	rlock release deploy "$token"
//	rlock acquire -n --ttl 1h --owner "Ann, by hand" deploy    # for work by hand
//
// The flags are those of rlock run. Without --owner, the token has no owner. With --owner, quote the token,
// because it has spaces. If rlock cannot print the token, it releases the lock. --json prints key, token,
// fence, ttl_ms and waited_ms.
//
// # rlock extend
//
//	rlock extend [--ttl 30s] [--json] KEY TOKEN
//
// gives the lock of KEY, or the share with TOKEN, a new lease that counts from now. A lease that ends later
// stays. The exit code is 76 if TOKEN is not the holder's: the lease has ended, or an operator freed the
// lock. Then stop the work under the lock. --json prints key, extended and ttl_ms. Flags:
//
//	--ttl 30s         the new lease
//
//	rlock extend deploy "$token"
//	rlock extend deploy "$token" --ttl 10m || exit
//
// # rlock release
//
//	rlock release [--json] KEY TOKEN
//
// frees the lock of KEY if TOKEN is its holder's, and hands it over to the first waiter. If TOKEN is a
// reader's or a permit holder's, it ends this share. Otherwise it changes nothing, and exits with 76. --json
// prints key and released.
//
//	rlock release deploy "$token"
//	rlock release --json deploy "$token"
//
// # rlock force-release
//
//	rlock force-release [--json] KEY --token TOKEN
//	rlock force-release [--json] --owner TEXT PATTERN [--yes]
//
// frees another holder's lock. The command rlock who shows the token. Without --token, rlock force-release
// shows the holder and frees nothing, so that you do not free a later holder's lock. The former holder learns
// of its loss from the
// server, most often at once, but may work meanwhile. A reader or permit holder learns of its loss at its
// next extension. A shared lock is free when every share is released. --json prints key, released and owner.
// Flags:
//
//	--token TOKEN     the holder whose lock is freed
//	--owner TEXT      all holders with this owner
//	--yes             free the locks; without it, only list them
//
// --owner is for a dead process, such as a pod. It selects locks that match PATTERN, as in rlock ls. It takes
// the holders whose owner is TEXT, or begins with TEXT and a space. Without --yes it lists them:
//
//	rlock force-release --owner web-3 'app:*'
//	rlock force-release --owner web-3 'app:*' --yes
//
// Without --yes, the exit code is 125. It is also 125 if rlock finds no lock. With --yes, the exit code is 76
// if a lock ended or changed hands meanwhile. --json prints key, owner, token and released. released is null
// if the result is unknown. The
// key of a shared lock may stay although rlock finds no holder. --owner cannot free such a key. rlock
// force-release KEY then shows the token that frees it.
//
// # rlock wait
//
//	rlock wait [-w 30s | -n] [-E 75] [--json] KEY
//
// waits until the lock of KEY is free, without taking it. With -n it does not wait, and exits with 0 if the
// lock is free, else with 75. The flags are those of rlock run. If a holder hands the lock over to a waiter,
// the lock is never free in between, and rlock wait goes on waiting.
// --json prints key and waited_ms.
//
//	rlock wait deploy
//	rlock wait -n deploy && echo free
//
// # rlock who
//
//	rlock who [--json] KEY [KEY…]
//
// shows for each key the holder, its token, quoted for a shell, and the rest of the lease. For a shared lock
// it shows the number of readers or used permits, the longest lease, and a line for each holder. Then it
// lists the queue in order with the server's times, at most 1000 waiters. Callers of other libraries stand in
// no queue. The exit code is 0 whether the key is held or free.
//
//	rlock who deploy
//	rlock who --json deploy backup
//
// --json prints key, held, mode, owner, token, remaining_ms and waiting. mode is exclusive, readers or
// permits, and null if the lock is free. For readers and permits, owner and token are null, and there are
// limit (null for readers), permits (in use; for readers their number) and holders. holders is a list of
// owner, token, permits, limit and remaining_ms. waiting is a list of owner, since, mode, permits and limit.
// permits and limit are 0 for a holder or waiter without permits.
//
// # rlock ls
//
//	rlock ls [--owner TEXT] [--json] PATTERN
//
// lists the held locks whose keys match PATTERN, sorted by key. A line has key, time left, owner and waiters,
// with tabs between. For a shared lock, the owner is the number of sharers and some of their names. A
// terminal gets a table with the number of waiters, where a long key has its own line. PATTERN is that of the
// command KEYS: * stands for any letters, ? for one, [ab] for a or b. Quote PATTERN for the shell:
//
//	rlock ls 'job:*'
//	rlock ls --owner web-3 '*'
//
// Flags:
//
//	--owner TEXT      only the locks of this owner
//
// With --owner, rlock lists locks of holders whose owner is TEXT, or begins with TEXT and a space. A lock
// that is taken or released meanwhile may be in the list or not. rlock scans all keys of every primary, a
// thousand at a time, and reads at most 400 bytes of each matching string. A lock is a string that looks like
// a token of rlock: a random UUID, perhaps with a text after it. Your own strings of this form are in the
// list too. For tokens of other libraries, or tokens that a program chose, use rlock who. docs/PRODUCTION.md
// names the rights that rlock ls needs. rlock reports errors after the list, for example a cluster node that
// is down. --json prints the fields of rlock who without held.
//
// # rlock probe
//
//	rlock probe [--prefix TEXT] [--json]
//
// takes a scratch lock, and reports what the server, its settings and the user's rights mean for locks. Each
// finding has one line. If the user has rights only to keys such as app:*, use --prefix app:. The exit code
// is 1 if there is a fault. --json prints severity (ok, note or FAULT), name, server, text and error. Flags:
//
//	--prefix TEXT     the beginning of the scratch lock's key
//
//	rlock probe
//	rlock probe --prefix app:
//
// # rlock version
//
//	rlock version [--json]
//
// prints the version of rlock and of Go, and the platform. It asks no server. A version that ends in a time
// and a commit, or (devel), was built from a directory, not from a release. --json prints version, commit,
// modified, go and platform. commit is null if unknown.
//
//	rlock version
//	rlock version --json
package main
