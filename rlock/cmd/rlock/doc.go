// Command rlock runs programs under locks on Redis or Valkey, and shows who holds which lock:
// for shells, for cron, and for people on call.
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
//	rlock extend KEY TOKEN                    give it a new lease
//	rlock release KEY TOKEN                   free it
//	rlock force-release KEY --token TOKEN     free a lock of somebody else
//	rlock force-release --owner TEXT PATTERN  free all of an owner that is gone
//	rlock wait KEY                            wait until nobody holds the lock
//	rlock who KEY [KEY…]                      tell who holds it, and who waits
//	rlock ls PATTERN                          list the locks that are held
//	rlock probe                               see whether the server suits locks
//	rlock help [COMMAND]                      print the manual of a command
//	rlock version                             print which rlock this is
//
// Every command has --json. With -h it prints its usage and its flags, and with --help its manual, as
// rlock help does. rlock --version is rlock version. A lock is a plain string key of the server, with
// the name KEY, so these are also the locks of every program that uses package rlock. A flag may stand
// before or after the keys, with one dash or with two.
//
// # Connection
//
// The environment variable RLOCK_URL, or REDIS_URL if that is not set, says where the server
// is. There is no flag for it, because arguments are visible to everybody on the machine, and
// a URL may have a password. There is no default either: cron starts programs without the
// variables of a login, and a lock on the wrong server keeps nobody out.
//
//	redis://[USER[:PASSWORD]@]HOST[:PORT][/DATABASE][?OPTION=VALUE&…]
//	rediss://…                     the same with TLS
//	unix://[USER[:PASSWORD]@]/PATH/OF/SOCKET[?OPTION=VALUE&…]
//
// valkey:// and valkeys:// mean the same as redis:// and rediss://. A password without a user
// stands behind a colon: redis://:PASSWORD@HOST. Letters of a user or password that mean
// something in a URL, such as / # ? @ and %, are percent-encoded: %2F for a slash. The port is
// 6379 where none is given. Options:
//
//	addr=HOST:PORT              one more address of the same cluster, or one more sentinel; may be
//	                            repeated
//	master_set=NAME             the addresses are those of sentinels, which know the primary by this name
//	sentinel_username=USER      for the sentinels, if they want a password; USER and PASSWORD before
//	sentinel_password=PASSWORD  the @ are for the primary
//	db=NUMBER                   the same as /DATABASE
//	dial_timeout=5s             how long a connection may take
//	write_timeout=5s            how long a server may say nothing; without it, some seconds that fit
//	                            into --ttl, 5 at most
//	client_name=NAME            what CLIENT LIST shows
//	protocol=2                  speak RESP2, for proxies that know nothing else
//	client_cache=0              no client-side cache, for servers without CLIENT TRACKING
//	max_retries=0               never repeat a command that only reads
//	skip_verify=true            do not verify the certificates of the servers; for tests
//
// An address of a Redis Cluster is enough to find the others. Several addresses that are not
// sentinels must be of one cluster:
//
//	RLOCK_URL='redis://10.0.0.1:7000?addr=10.0.0.2:7000&addr=10.0.0.3:7000'
//	RLOCK_URL='redis://:PASSWORD@sentinel-1:26379?addr=sentinel-2:26379&master_set=main'
//
// With rediss, the certificate of every server must have the name of the first HOST. The
// certificate authorities are those of the system, or of SSL_CERT_FILE and SSL_CERT_DIR. More
// variables name files:
//
//	RLOCK_PASSWORD_FILE  its only line is the password; USER stands in the URL: redis://USER@HOST
//	RLOCK_TLS_CERT       the certificate of rlock in PEM, which Redis asks for by default, and
//	RLOCK_TLS_KEY        its key
//	RLOCK_TLS_CA         the certificate authorities, in place of the system's
//
// Each connection reads the password, the certificate and the key anew, so CMD outlasts a new one.
//
// A server that is away. rlock run, acquire and wait wait for a server that they cannot reach as
// they wait for the lock: for as long as -w says, and without it for ever. They tell so once on
// standard error, try each second, and end with 125 if the time is over. With -n, and all other
// commands, rlock tries once. A wrong password or certificate ends it at once either way.
//
// # Exit codes
//
//	  0  it is done
//	  1  probe has found a fault
//	 75  the lock was not acquired in time, or is still held; -E chooses another code
//	 76  the lock was lost, or the token is not its holder's
//	125  rlock itself has failed: wrong arguments, no server, an error of the server. A server
//	     that does not answer is no lock that others hold, so -E does not change this
//	126  CMD cannot be executed
//	127  CMD is not found
//	128+N  CMD was ended by signal N, or rlock was while it waited: 130 is SIGINT, 143 SIGTERM
//
// Otherwise rlock run ends with the exit code of CMD. If CMD has codes of its own above 74, -v
// or --json tell the two apart.
//
// # Waiting at a terminal
//
// While rlock run, acquire or wait waits, and standard error is a terminal, its last line tells for how
// long and when rlock gives up, the place in the queue, who holds the lock, and what is left of the
// lease:
//
//	waiting for job, 12s of 5m, place 2/3; held by web-3 pid 47 rlock: sort, 29s left, extended, for over 12s
//
// The line changes once a second, for one command to the server, and is erased when the waiting is
// over. In a narrow terminal it has fewer words, and shorter names. The server does not know since when a
// lock is held, so "for over" counts from when rlock first saw the holder, and "extended" means that the
// end of the lease has moved since. Who wants to watch a lock runs rlock wait KEY. The place is told if
// exactly one in the queue has the owner's text of the command, for which rlock acquire needs --owner;
// otherwise the line tells how many are in line.
//
// With -n nothing is told, and from the background nothing is written. Where TERM is dumb or not set,
// there is a message for each new holder. There are no colours. With --json, and with -v off a terminal,
// there is one message.
//
// # JSON
//
// With --json, standard output has one JSON object in each line, and so has standard error.
// Keys and owners are text; a key that is not UTF-8 has its bytes in key_base64 as well.
// Times that are left are in milliseconds, and null where a lock never expires. The commands
// below tell their fields. rlock run leaves standard output to CMD and writes objects to
// standard error, as do all commands for errors:
//
//	{"event":"error","message":"…","code":125}
//
// # rlock run
//
//	rlock run [FLAG…] KEY [KEY…] -- CMD [ARG…]
//
// takes the lock of KEY, runs CMD, extends the lease for as long as CMD runs, and releases the
// lock when CMD has ended. Who waits gets the lock first come, first served, also between
// machines. With several keys it takes all of them or none; on a cluster they may be in
// different slots. Flags:
//
//	--shared          share the lock with others who say --shared
//	--limit N         take one of N permits: at most N commands at a time
//	--permits M       take M of the permits in one step
//	--min-hold 10m    keep others out for this time even if CMD ends earlier
//	--ttl 30s         the lease: how long the lock outlives a dead machine
//	-w, --wait 30s    give up after this time; without it, wait for ever
//	-n, --no-wait     do not wait at all
//	-E, --conflict-exit-code 75  the exit code if the lock was not acquired
//	--owner TEXT      what rlock who shows
//	--signal TERM     how CMD is told to stop: a name or a number
//	--kill-after 5s   how long CMD may take to stop before it is killed
//	--key KEY         one more key, for a key that begins with a dash
//	-v, --verbose     tell on standard error what happens to the lock
//	--json            write JSON, whose fields the manual tells
//
// Without --owner, the owner's text is the host, the process and the name of CMD.
//
// CMD is executed as it is, without a shell. For a pipe or a variable, give the shell yourself. There
// is no flag for that, such as -c of flock: it would save one word, and hide which shell it is:
//
//	rlock run -n report -- sh -c 'make-report | mail -s report team'
//
// CMD has standard input, output and error, and all other open files, of rlock itself. Its
// environment has, beside rlock's:
//
//	RLOCK_KEY    the key; of several, one in each line
//	RLOCK_TOKEN  the token of the holder
//	RLOCK_FENCE  a number that is larger than that of every earlier holder: a resource that
//	             refuses smaller numbers is safe from a holder that does not know of its loss.
//	             Those who share the lock have the same number
//
// A command that runs under a lock already, by its RLOCK_KEY and RLOCK_TOKEN, is refused the
// same key, also a share of it: it could wait for itself for ever.
//
// The lock is released when CMD ends. What CMD has started and left in the background goes on
// without it.
//
// Readers and permits. With --shared, any number of commands have the lock together. Who wants
// the whole lock, which is what rlock run takes without these flags, waits until all of them have
// ended, and those with --shared who come later wait behind it:
//
//	rlock run --shared data -- make-report      # several at a time
//	rlock run data -- import                    # alone
//
// With --limit, at most N commands run at a time, on however many machines. A machine that dies
// has its permit until the end of its lease:
//
//	rlock run --limit 4 build -- make                # four at a time
//	rlock run --limit 4 --permits 2 build -- make    # as if it were two of them
//
// All who use a key must say the same N, and a key has either readers or permits at a time. If
// the present holders said something else, rlock ends with 125; when nobody holds the key, the
// next one says what there is. Both flags are for one KEY. If CMD needs two, run one rlock run
// under the other, with the keys in the same order everywhere.
//
// Once for all machines. Machines start a job at times that differ by as much as their clocks, and
// a short job may have ended before the last one starts it. --min-hold leaves the lock until the
// time is over, counted from when it was granted, whether CMD has succeeded or failed. --ttl must
// be as long, so that a machine that dies keeps the others out too. If CMD could not be started,
// the lock is free at once. After the end of CMD, rlock who still shows its owner, and rlock
// force-release ends the time early.
//
//	0 3 * * *  rlock run -n -E 0 --ttl 10m --min-hold 10m nightly -- /usr/local/bin/nightly
//
// Signals. CMD runs in a process group of its own. SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1 and
// SIGUSR2 that rlock gets are passed on to the group, and rlock waits until CMD ends. Before CMD
// has started, they end rlock at once, and so does the end of -w: a server that answers has a
// sixth of a second to take back what it has granted in that moment, and what a silent one has
// granted ends with its lease. A signal that is ignored, as by nohup, stays ignored.
// In a terminal the group becomes the foreground process group, so CMD may read from the terminal,
// Ctrl-C reaches it, and Ctrl-Z suspends it together with rlock. While rlock is suspended it
// cannot extend the lease. If the lease is over when it is continued, CMD is killed before
// it can go on.
//
// Losing the lock. If the lease cannot be extended, as when the server is out of reach, CMD gets
// the signal of --signal early enough that --kill-after ends inside the lease. Then the whole
// group is killed, before the server lets the next one in. Nobody is asked for that: rlock counts
// the lease on its own clock. --ttl must be three times as long as --kill-after and 100 ms more,
// so that there is time to extend the lease before. If the server says that the lock is gone,
// because the key was deleted or somebody has used force-release, CMD gets the signal at once; if
// the lock is shared and only this share was taken away, at the next extension, which is after a
// third of --ttl. Either way, the exit code is 76, whatever that of CMD. It is also 76 if the loss
// is only noticed when CMD has ended. When CMD was stopped, rlock ends at once, and what the server
// may still have of the lock ends with the lease.
//
// In a container rlock may be the first process. It reaps what CMD leaves, and the signals above
// reach it, while it waits too:
//
//	ENTRYPOINT ["rlock", "run", "import", "--", "/usr/local/bin/import"]
//
// What rlock cannot do. If rlock itself is stopped with SIGSTOP, or the machine sleeps, CMD may
// run on without a lease until rlock continues, and is killed then. If rlock is ended with
// SIGKILL, the lock stays until the lease ends, at most --ttl later. On Linux the kernel then
// kills CMD at once, but not what CMD has started itself, and not a CMD that is set-user-ID. On
// other systems CMD runs on without a lock. Let the resource refuse small fences where that must
// do no harm.
//
// On Windows there are no such signals and no process groups: CMD is in the console of rlock and
// gets Ctrl-C from there. It is ended at once where it would have to stop, and what it has started
// goes on.
//
// In a crontab, -n skips a run while the last one has not ended, on whichever machine that is.
// With -E 0, a run that is skipped prints nothing, so cron sends no mail about it. Cron has a
// PATH of its own, most often /usr/bin:/bin. Name the directory in which rlock is, which is
// ~/go/bin after go install:
//
//	RLOCK_URL=redis://redis.internal:6379
//	PATH=/home/me/go/bin:/usr/bin:/bin
//	*/5 * * * *  rlock run -n -E 0 import -- /usr/local/bin/import
//
// Objects of --json have event, message and keys, and these have more: contended
// (owner, remaining_ms), unreachable, connected, acquired (fence, waited_ms), stopping and killed (reason),
// suspended, exited (code, and signal if one has ended CMD), released, kept (remaining_ms; with --min-hold,
// in place of released), error (code).
//
// # rlock acquire
//
//	rlock acquire [--shared | --limit N [--permits M]] [--ttl 30s]
//	              [-w 30s | -n] [-E 75] [--owner TEXT] [--json] KEY
//
// takes the lock of KEY, or a share of it, and prints its token. Nothing extends the lease, so
// --ttl must be long enough for the work. For scripts that cannot be one command of rlock run:
//
//	token=$(rlock acquire --ttl 10m -w 1m deploy) || exit
//	…
//	rlock extend deploy "$token" --ttl 10m || exit
//	…
//	rlock release deploy "$token"
//
// Or for a person who works on something by hand:
//
//	rlock acquire -n --ttl 1h --owner "Ann, by hand" deploy
//
// The flags are those of rlock run. Without --owner the token has no owner's text. With one it
// has spaces, so quote it. --json prints key, token, fence, ttl_ms and waited_ms. If the token
// cannot be printed, the lock is released again.
//
// # rlock extend
//
//	rlock extend [--ttl 30s] [--json] KEY TOKEN
//
// gives the lock of KEY, or the share of it, that rlock acquire took with TOKEN a new lease, counted
// from now. A lease that ends later stays as it is. If TOKEN is not the holder's, because the lease has
// ended or somebody has freed the lock, the exit code is 76: stop what the lock protects. Flags:
//
//	--ttl 30s         the new lease
//
//	rlock extend deploy "$token"
//	rlock extend deploy "$token" --ttl 10m || exit
//
// --json prints key, extended and ttl_ms.
//
// # rlock release
//
//	rlock release [--json] KEY TOKEN
//
// frees the lock of KEY if TOKEN is its holder's, and passes it to who has waited longest. If the
// lock is shared and TOKEN is that of a reader or of a holder of permits, it gives up that share.
// Otherwise it leaves the lock alone and ends with 76. --json prints key and released.
//
//	rlock release deploy "$token"
//	rlock release --json deploy "$token"
//
// # rlock force-release
//
//	rlock force-release [--json] KEY --token TOKEN
//	rlock force-release [--json] --owner TEXT PATTERN [--yes]
//
// does the same for a lock of somebody else, whose token rlock who shows. Without --token it tells who
// holds the lock, and frees nothing: the token keeps you from freeing the lock of a later holder. The
// former holder learns of its loss from the server, most often at once, but may be at work meanwhile;
// the holder of a share learns of it when it next extends its lease. A lock that is shared is free when
// each of its holders was released. --json prints key, released and owner. Flags:
//
//	--token TOKEN     the holder whose lock is freed
//	--owner TEXT      all holders of this name
//	--yes             free them, and do not only list them
//
// With --owner it is about all that a process has which is gone, such as a pod: of the locks that
// match PATTERN, as rlock ls lists them, those of the holders whose owner is TEXT, or begins with
// TEXT and a space. It lists them, and frees them only with --yes:
//
//	rlock force-release --owner web-3 'app:*'
//	rlock force-release --owner web-3 'app:*' --yes
//
// Without --yes, and if there is none, the exit code is 125; with it, 76 if one of them had ended or
// changed hands by then. --json prints key, owner, token and released of each, which is null if nobody
// knows. If a lock that is shared has no holder left and stays, rlock force-release KEY tells the token
// that frees it.
//
// # rlock wait
//
//	rlock wait [-w 30s | -n] [-E 75] [--json] KEY
//
// waits until nobody holds the lock of KEY, or shares it, without taking it. With -n it does not
// wait: the exit code is 0 if the lock is free, and 75 if not. The flags are those of rlock run. A
// lock that is passed on to who waits for it is never free in between. --json prints key and
// waited_ms.
//
//	rlock wait deploy
//	rlock wait -n deploy && echo free
//
// # rlock who
//
//	rlock who [--json] KEY [KEY…]
//
// tells of each key whether it is held, by whom, with which token, quoted for a shell, and how
// much of the lease is left. Of a lock that is shared it tells how many readers there are, or how
// many permits are in use and of how many, what is left of the lease that ends last, and in a line
// for each holder the same about that one. Then it tells which processes wait in the queue of the
// lock, in the order in which they get it, and since when by the clock of the server, the first
// thousand at most. Those of other libraries stand in no queue. The exit code is 0 either way.
//
//	rlock who deploy
//	rlock who --json deploy backup
//
// --json prints key, held, mode, owner, token, remaining_ms and waiting. mode is exclusive, readers
// or permits, and null if nobody has the lock. For readers and permits owner and token are null, and
// there are limit (null for readers), permits (in use; of readers, how many there are) and
// holders: a list of objects with owner, token, permits, limit and remaining_ms. waiting is a list of
// objects with owner, since, mode, permits and limit. Who has, or wants, no permits has 0 permits of 0.
//
// # rlock ls
//
//	rlock ls [--owner TEXT] [--json] PATTERN
//
// lists the locks whose keys match PATTERN, in the order of their keys: key, time left, owner, or for a
// lock that is shared how many share it and who, and who waits, with a tab between two of these. In a
// terminal it is a table with a head, which tells how many wait, and where a long key has a line of its
// own. Keys are never cut. A pattern is that of the command KEYS: * stands for any letters, ? for one,
// [ab] for one of these. Quote it, or the shell replaces it with names of files:
//
//	rlock ls 'job:*'
//	rlock ls --owner web-3 '*'
//
// Flags:
//
//	--owner TEXT      only the locks of this holder
//
// With --owner it lists only the locks of a holder whose owner is TEXT, or begins with TEXT and a
// space. It is no snapshot: a lock that is taken or released meanwhile may be listed or not. rlock
// walks through all keys of the server, a thousand at a time, on every primary of a cluster, and reads
// at most 400 bytes of the strings that match. It lists strings that look like tokens of rlock: a
// random UUID, perhaps with a text behind it, so a string of your own that is one is in the list. For a
// lock with a token of another library, or one that a program has chosen, use rlock who. The user may
// need more rights than for locks, which docs/PRODUCTION.md names. What it cannot find out, as when a node
// of a cluster is down, is an error after the rest. --json prints the fields of rlock who but for held.
//
// # rlock probe
//
//	rlock probe [--prefix TEXT] [--json]
//
// takes a scratch lock and tells what the server, its settings and the user's rights mean for locks,
// one finding in each line. If the user has rights only to keys that begin with a text such as app:,
// --prefix app: has the key of the scratch lock begin so too. The exit code is 1 if there is a fault.
// Flags:
//
//	--prefix TEXT     what the key of the scratch lock begins with
//
//	rlock probe
//	rlock probe --prefix app:
//
// --json prints severity (ok, note or FAULT), name, server, text and error.
//
// # rlock version
//
//	rlock version [--json]
//
// prints the version of rlock, that of Go with which it was built, and the platform. It asks no server.
// A version that ends in a time and a commit, or (devel), was built from a directory and not from a
// release. --json prints version, commit, modified, go and platform; commit is null where it is not
// known.
//
//	rlock version
//	rlock version --json
package main
