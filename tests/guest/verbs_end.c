/* One end of a reliable connection through libibverbs, told over TCP what to do: runs in the guest.

   verbs_end PORT GID_INDEX PATH_MTU BUFFER_BYTES RECEIVES RECEIVE_BYTES

   All numbers on the connection are hexadecimal. The first line gives the other end: QPN PSN GID. The answer describes
   this one: QPN PSN GID RKEY ADDRESS LENGTH. Requests after that, with offsets into the buffer:

     crc OFFSET LENGTH                    answers CRC and the CRC-32 of a part of the buffer
     fill OFFSET LENGTH SEED              fills a part with pseudo-random bytes, answers OK
     recv COUNT                           posts receives into the upper half, answers OK
     send OFFSET LENGTH
     write OFFSET LENGTH ADDRESS RKEY
     read OFFSET LENGTH ADDRESS RKEY
     fadd OFFSET ADDRESS RKEY ADDEND
     cas OFFSET ADDRESS RKEY EXPECTED NEW
     quit

   Work requests answer POSTED; every completion is a line: CQE WR_ID OPCODE STATUS LENGTH IMMEDIATE. */
#include <arpa/inet.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <zlib.h>

enum { RETRIES = 7, TIMEOUT_EXPONENT = 16, RNR_TIMER = 12, READS_AT_ONCE = 16, IDLE_MS = 1 };

static struct {
	uint8_t *bytes;
	size_t length, receive_length;
	struct ibv_mr *region;
	struct ibv_qp *pair;
	struct ibv_cq *completions;
	uint64_t received, requested;
} end;

static FILE *answers;

static void fail(const char *what)
{
	fprintf(stderr, "%s: %s\n", what, strerror(errno));
	exit(1);
}

static void must(bool succeeded, const char *what)
{
	if (!succeeded)
		fail(what);
}

static void answer(const char *format, ...)
{
	va_list values;
	va_start(values, format);
	vfprintf(answers, format, values);
	va_end(values);
	fflush(answers);
}

static const int REMOTE = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;

static struct ibv_context *open_device(void)
{
	int number = 0;
	struct ibv_device **devices = ibv_get_device_list(&number);
	must(devices && number, "no RDMA device");
	struct ibv_context *context = ibv_open_device(devices[0]);
	must(context, "ibv_open_device");
	return context;
}

static void create(struct ibv_context *context)
{
	struct ibv_pd *domain = ibv_alloc_pd(context);
	must(domain, "ibv_alloc_pd");
	must(!posix_memalign((void **)&end.bytes, 4096, end.length), "posix_memalign");
	memset(end.bytes, 0, end.length);
	end.region = ibv_reg_mr(domain, end.bytes, end.length, IBV_ACCESS_LOCAL_WRITE | REMOTE);
	must(end.region, "ibv_reg_mr");
	end.completions = ibv_create_cq(context, 4096, NULL, NULL, 0);
	must(end.completions, "ibv_create_cq");
	struct ibv_qp_init_attr wanted = {
		.send_cq = end.completions,
		.recv_cq = end.completions,
		.qp_type = IBV_QPT_RC,
		.sq_sig_all = 1,
		.cap = { .max_send_wr = 512, .max_recv_wr = 2048, .max_send_sge = 1, .max_recv_sge = 1 },
	};
	end.pair = ibv_create_qp(domain, &wanted);
	must(end.pair, "ibv_create_qp");
	struct ibv_qp_attr to_init = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = REMOTE };
	must(!ibv_modify_qp(end.pair, &to_init, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
	     "to INIT");
}

/* Receives take turns in the upper half of the buffer. */
static bool post_receives(unsigned long long count)
{
	size_t half = end.length / 2, room = half - end.receive_length + 1;
	for (; count; count--, end.received++) {
		struct ibv_sge part = {
			.addr = (uintptr_t)end.bytes + half + end.received * end.receive_length % room,
			.length = end.receive_length,
			.lkey = end.region->lkey,
		};
		struct ibv_recv_wr receive = { .wr_id = 1ull << 31 | end.received, .sg_list = &part, .num_sge = 1 }, *bad;
		if (ibv_post_recv(end.pair, &receive, &bad))
			return false;
	}
	return true;
}

static enum ibv_mtu path_mtu_of(unsigned bytes)
{
	enum ibv_mtu mtu = IBV_MTU_256;
	for (; bytes > 256; bytes /= 2)
		mtu++;
	return mtu;
}

static void connect_to(unsigned qpn, unsigned psn, union ibv_gid gid, int gid_index, unsigned path_mtu, unsigned own_psn)
{
	struct ibv_qp_attr to_rtr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = path_mtu_of(path_mtu),
		.dest_qp_num = qpn,
		.rq_psn = psn,
		.max_dest_rd_atomic = READS_AT_ONCE,
		.min_rnr_timer = RNR_TIMER,
		.ah_attr = {
			.is_global = 1,
			.port_num = 1,
			.grh = { .dgid = gid, .sgid_index = gid_index, .hop_limit = 64 },
		},
	};
	must(!ibv_modify_qp(end.pair, &to_rtr,
			    IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
				    IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER),
	     "to RTR");
	struct ibv_qp_attr to_rts = {
		.qp_state = IBV_QPS_RTS,
		.timeout = TIMEOUT_EXPONENT,
		.retry_cnt = RETRIES,
		.rnr_retry = RETRIES,
		.sq_psn = own_psn,
		.max_rd_atomic = READS_AT_ONCE,
	};
	must(!ibv_modify_qp(end.pair, &to_rts,
			    IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
				    IBV_QP_MAX_QP_RD_ATOMIC),
	     "to RTS");
}

static int accept_one(int port)
{
	int listener = socket(AF_INET, SOCK_STREAM, 0), yes = 1;
	struct sockaddr_in any = { .sin_family = AF_INET, .sin_port = htons(port) };
	setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
	must(!bind(listener, (struct sockaddr *)&any, sizeof any) && !listen(listener, 1), "listen");
	int connection = accept(listener, NULL, NULL);
	must(connection >= 0, "accept");
	close(listener);
	return connection;
}

static bool report_completions(void)
{
	struct ibv_wc done;
	bool any = false;
	for (; ibv_poll_cq(end.completions, 1, &done) > 0; any = true) {
		const char *status = done.status == IBV_WC_SUCCESS ? "ok" : ibv_wc_status_str(done.status);
		unsigned immediate = done.wc_flags & IBV_WC_WITH_IMM ? ntohl(done.imm_data) : 0;
		answer("CQE %llx %x %s %x %x\n", (unsigned long long)done.wr_id, done.opcode, status, done.byte_len,
		       immediate);
	}
	return any;
}

static bool is_inside(unsigned long long offset, unsigned long long length)
{
	return offset <= end.length && length <= end.length - offset;
}

/* A verb and its numbers as a work request; false: it is none. */
static bool work_request(const char *verb, const unsigned long long *number, struct ibv_send_wr *request)
{
	struct ibv_sge *part = request->sg_list;
	part->addr = (uintptr_t)end.bytes + number[0];
	part->length = number[1];
	request->wr.rdma.remote_addr = number[2];
	request->wr.rdma.rkey = number[3];
	if (!strcmp(verb, "send")) {
		request->opcode = IBV_WR_SEND;
	} else if (!strcmp(verb, "write")) {
		request->opcode = IBV_WR_RDMA_WRITE;
	} else if (!strcmp(verb, "read")) {
		request->opcode = IBV_WR_RDMA_READ;
	} else if (!strcmp(verb, "fadd") || !strcmp(verb, "cas")) {
		request->opcode = *verb == 'f' ? IBV_WR_ATOMIC_FETCH_AND_ADD : IBV_WR_ATOMIC_CMP_AND_SWP;
		part->length = sizeof(uint64_t);
		request->wr.atomic.remote_addr = number[1];
		request->wr.atomic.rkey = number[2];
		request->wr.atomic.compare_add = number[3];
		request->wr.atomic.swap = number[4];
	} else {
		return false;
	}
	return is_inside(number[0], part->length);
}

static void do_request(const char *line)
{
	char verb[16] = "";
	unsigned long long number[5] = { 0 };
	sscanf(line, "%15s %llx %llx %llx %llx %llx", verb, &number[0], &number[1], &number[2], &number[3], &number[4]);
	struct ibv_sge part = { .lkey = end.region->lkey };
	struct ibv_send_wr request = { .wr_id = ++end.requested, .sg_list = &part, .num_sge = 1 }, *bad;
	if (!strcmp(verb, "quit")) {
		exit(0);
	} else if (!strcmp(verb, "crc") && is_inside(number[0], number[1])) {
		answer("CRC %08lx\n", crc32(0, end.bytes + number[0], number[1]));
	} else if (!strcmp(verb, "fill") && is_inside(number[0], number[1])) {
		unsigned state = number[2];
		for (uint8_t *byte = end.bytes + number[0]; number[1]; number[1]--, byte++) {
			state = state * 1103515245u + 12345u;
			*byte = state >> 16;
		}
		answer("OK\n");
	} else if (!strcmp(verb, "recv")) {
		answer(post_receives(number[0]) ? "OK\n" : "ERR receives\n");
	} else if (work_request(verb, number, &request)) {
		int error = ibv_post_send(end.pair, &request, &bad);
		answer(error ? "ERR %s\n" : "POSTED\n", strerror(error));
	} else {
		answer("ERR %s\n", verb);
	}
}

int main(int count, char **words)
{
	if (count != 7) {
		fprintf(stderr, "usage: verbs_end PORT GID_INDEX PATH_MTU BUFFER_BYTES RECEIVES RECEIVE_BYTES\n");
		return 2;
	}
	int port = atoi(words[1]), gid_index = atoi(words[2]);
	unsigned path_mtu = atoi(words[3]);
	end.length = strtoul(words[4], NULL, 0);
	end.receive_length = strtoul(words[6], NULL, 0);
	struct ibv_context *context = open_device();
	create(context);
	union ibv_gid own, gid;
	must(!ibv_query_gid(context, 1, gid_index, &own), "ibv_query_gid");

	int connection = accept_one(port);
	FILE *requests = fdopen(connection, "r");
	answers = fdopen(dup(connection), "w");
	setvbuf(requests, NULL, _IONBF, 0); /* poll() has to see what is not read yet */
	char line[256], text[33];
	unsigned qpn, psn, own_psn = (unsigned)getpid() << 8 & 0xffffff;
	must(fgets(line, sizeof line, requests) && sscanf(line, "%x %x %32s", &qpn, &psn, text) == 3, "the other end");
	for (int place = 0; place < 16; place++)
		must(sscanf(text + 2 * place, "%2hhx", &gid.raw[place]) == 1, "the GID of the other end");
	must(post_receives(strtoul(words[5], NULL, 0)), "receives");
	connect_to(qpn, psn, gid, gid_index, path_mtu, own_psn);
	for (int place = 0; place < 16; place++)
		sprintf(text + 2 * place, "%02x", own.raw[place]);
	answer("%x %x %s %x %llx %zx\n", end.pair->qp_num, own_psn, text, end.region->rkey,
	       (unsigned long long)(uintptr_t)end.bytes, end.length);

	while (true) {
		bool was_busy = report_completions();
		struct pollfd readable = { .fd = connection, .events = POLLIN };
		if (poll(&readable, 1, was_busy ? 0 : IDLE_MS) <= 0)
			continue;
		if (!fgets(line, sizeof line, requests))
			return 0;
		do_request(line);
	}
}
