/* scorer_body.h - train/scorer.h for one type of number: REAL, NAME(x) (its suffix), EXP, ERF,
 * SQRT, and three products of row-major matrices:
 *
 *   PRODUCT_NT(c, a, b, m, n, k)  c [m n]  = a [m k] b [n k]^T
 *   PRODUCT_TN(c, a, b, m, n, k)  c [m n] += a [k m]^T b [k n]
 *   PRODUCT_NN(c, a, b, m, n, k)  c [m n]  = a [m k] b [k n] */

static inline REAL NAME(sigmoid)(REAL x)
{
    return (REAL)1 / ((REAL)1 + EXP(-x));
}

/* ---- two layers ----------------------------------------------------------------------------
 */

static REAL NAME(act)(mlp_act act, REAL u)
{
    if (act == MLP_SILU)
        return u * NAME(sigmoid)(u);
    if (act == MLP_GELU)
        return (REAL)0.5 * u * ((REAL)1 + ERF(u * (REAL)0.70710678118654752));
    return u;
}

static REAL NAME(act_slope)(mlp_act act, REAL u)
{
    if (act == MLP_SILU) {
        REAL s = NAME(sigmoid)(u);
        return s * ((REAL)1 + u * ((REAL)1 - s));
    }
    if (act == MLP_GELU)
        return (REAL)0.5 * ((REAL)1 + ERF(u * (REAL)0.70710678118654752)) +
               u * EXP((REAL)-0.5 * u * u) * (REAL)0.39894228040143268;
    return 1;
}

void NAME(mlp_score)(const mlp_shape *s, const REAL *param, const REAL *x, int64_t n,
                     REAL *score, REAL *work)
{
    REAL *u = work, *a = work + n * s->width;
    const REAL *bias = param + mlp_in_bias(s), *last = param + mlp_out_bias(s);
    PRODUCT_NT(u, x, param, n, s->width, s->n_in);
    for (int64_t i = 0; i < n * s->width; i++) {
        u[i] += bias[i % s->width];
        a[i] = NAME(act)(s->act, u[i]);
    }
    PRODUCT_NT(score, a, param + mlp_out(s), n, s->n_out, s->width);
    for (int64_t i = 0; i < n * s->n_out; i++)
        score[i] += last[i % s->n_out];
}

void NAME(mlp_back)(const mlp_shape *s, const REAL *param, const REAL *x, int64_t n,
                    const REAL *slope, REAL *grad, REAL *work)
{
    REAL *u = work, *a = work + n * s->width;
    REAL *bias = grad + mlp_in_bias(s), *last = grad + mlp_out_bias(s);
    PRODUCT_TN(grad + mlp_out(s), slope, a, s->n_out, s->width, n);
    for (int64_t i = 0; i < n * s->n_out; i++)
        last[i % s->n_out] += slope[i];
    PRODUCT_NN(a, slope, param + mlp_out(s), n, s->width, s->n_out);
    for (int64_t i = 0; i < n * s->width; i++) {
        u[i] = a[i] * NAME(act_slope)(s->act, u[i]);
        bias[i % s->width] += u[i];
    }
    PRODUCT_TN(grad, u, x, s->width, s->n_in, n);
}

/* ---- mLSTM ---------------------------------------------------------------------------------
 */

/* Parts of `work`. A state is C [2 O, O], then z [2 O]. */
typedef struct NAME(memory) {
    int64_t inner, rows, n_state;
    REAL *pre;     /* [n rows]: u_q, u_k, v, a_i, a_f */
    REAL *slope;   /* [n rows] of the loss by pre */
    REAL *feature; /* [n 4 O]: phi(u_q), phi(u_k) */
    REAL *gate;    /* [n 2]: i and f, stabilised */
    REAL *state;   /* C and z now */
    REAL *back;    /* slopes of the loss by them */
    REAL *read;    /* [n_read]: the state at each read-out, then y [O], den, rms */
    REAL *hand;    /* [8 O] */
} NAME(memory);

static void NAME(memory_lay)(NAME(memory) * m, const mlstm_shape *s, int64_t n, REAL *work)
{
    int64_t O = s->inner, rows = mlstm_rows(s);
    *m = (NAME(memory)){.inner = O, .rows = rows, .n_state = 2 * O * O + 2 * O, .pre = work};
    m->slope = m->pre + n * rows;
    m->feature = m->slope + n * rows;
    m->gate = m->feature + n * 4 * O;
    m->state = m->gate + n * 2;
    m->back = m->state + m->n_state;
    m->hand = m->back + m->n_state;
    m->read = m->hand + 8 * O;
}

/* out [2 n] = [softmax(u); softmax(-u)] */
static void NAME(phi)(REAL *out, const REAL *u, int64_t n)
{
    REAL most = u[0], least = u[0], sum[2] = {0, 0};
    for (int64_t i = 1; i < n; i++) {
        most = u[i] > most ? u[i] : most;
        least = u[i] < least ? u[i] : least;
    }
    for (int64_t i = 0; i < n; i++) {
        sum[0] += out[i] = EXP(u[i] - most);
        sum[1] += out[n + i] = EXP(least - u[i]);
    }
    for (int64_t i = 0; i < n; i++) {
        out[i] /= sum[0];
        out[n + i] /= sum[1];
    }
}

/* du [n] from the slopes d [2 n] of phi. */
static void NAME(phi_back)(REAL *du, const REAL *phi, const REAL *d, int64_t n)
{
    REAL dot[2] = {0, 0};
    for (int64_t i = 0; i < n; i++) {
        dot[0] += phi[i] * d[i];
        dot[1] += phi[n + i] * d[n + i];
    }
    for (int64_t i = 0; i < n; i++)
        du[i] += phi[i] * (d[i] - dot[0]) - phi[n + i] * (d[n + i] - dot[1]);
}

/* -softplus(-a) = log sigma(a) */
static REAL NAME(log_sigmoid)(REAL a)
{
    return a < 0 ? a - LOG1P(EXP(a)) : -LOG1P(EXP(-a));
}

static void NAME(project)(const NAME(memory) * m, const mlstm_shape *s, const REAL *param,
                          const REAL *x, int64_t n)
{
    const REAL *bias = param + mlstm_bias(s);
    REAL mu = 0;
    PRODUCT_NT(m->pre, x, param, n, m->rows, s->n_in);
    for (int64_t t = 0; t < n; t++) {
        REAL *p = m->pre + t * m->rows, *gate = m->gate + 2 * t;
        for (int64_t i = 0; i < m->rows; i++)
            p[i] += bias[i];
        NAME(phi)(m->feature + t * 4 * m->inner, p, m->inner);
        NAME(phi)(m->feature + t * 4 * m->inner + 2 * m->inner, p + m->inner, m->inner);
        REAL in = p[3 * m->inner], keep = NAME(log_sigmoid)(p[3 * m->inner + 1]);
        /* C_0 = 0: before the first token there is nothing to keep. */
        REAL next = t == 0 || keep + mu < in ? in : keep + mu;
        gate[0] = EXP(in - next);
        gate[1] = t == 0 ? 0 : EXP(keep + mu - next);
        mu = next;
    }
}

/* C = f C + i k v^T, z = f z + i k */
static void NAME(remember)(const NAME(memory) * m, int64_t t)
{
    int64_t O = m->inner;
    const REAL *k = m->feature + t * 4 * O + 2 * O, *v = m->pre + t * m->rows + 2 * O;
    REAL in = m->gate[2 * t], keep = m->gate[2 * t + 1], *z = m->state + 2 * O * O;
    for (int64_t a = 0; a < 2 * O; a++) {
        REAL *c = m->state + a * O, w = in * k[a];
        z[a] = keep * z[a] + w;
        VECTOR for (int64_t b = 0; b < O; b++) c[b] = keep * c[b] + w * v[b];
    }
}

/* y [O] and its denominator from a state. */
static REAL NAME(look)(const NAME(memory) * m, const REAL *state, const REAL *q, REAL *y)
{
    int64_t O = m->inner;
    const REAL *z = state + 2 * O * O;
    REAL den = 0;
    for (int64_t b = 0; b < O; b++)
        y[b] = 0;
    for (int64_t a = 0; a < 2 * O; a++) {
        den += q[a] * z[a];
        VECTOR for (int64_t b = 0; b < O; b++) y[b] += q[a] * state[a * O + b];
    }
    for (int64_t b = 0; b < O; b++)
        y[b] /= den;
    return den;
}

static REAL NAME(rms)(const REAL *y, int64_t n)
{
    REAL sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += y[i] * y[i];
    return SQRT(sum / (REAL)n + (REAL)1e-6);
}

static REAL NAME(head)(const mlstm_shape *s, const REAL *param, const REAL *y, REAL rms)
{
    const REAL *gain = param + mlstm_gain(s), *out = param + mlstm_out(s);
    REAL r = param[mlstm_out_bias(s)];
    for (int64_t i = 0; i < s->inner; i++)
        r += out[i] * NAME(act)(MLP_SILU, gain[i] * y[i] / rms);
    return r;
}

void NAME(mlstm_score)(const mlstm_shape *s, const REAL *param, const REAL *x, int64_t n,
                       const int32_t *read, int64_t n_read, bool learns, REAL *score,
                       REAL *work)
{
    NAME(memory) m;
    NAME(memory_lay)(&m, s, n, work);
    NAME(project)(&m, s, param, x, n);
    for (int64_t i = 0; i < m.n_state; i++)
        m.state[i] = 0;
    for (int64_t t = 0, at = 0; t < n && at < n_read; t++) {
        NAME(remember)(&m, t);
        if (read[at] + s->delay != t)
            continue;
        REAL *kept = m.read + at * (m.n_state + s->inner + 2);
        REAL *y = learns ? kept + m.n_state : m.hand;
        for (int64_t i = 0; learns && i < m.n_state; i++)
            kept[i] = m.state[i];
        y[s->inner] = NAME(look)(&m, m.state, m.feature + read[at] * 4 * s->inner, y);
        y[s->inner + 1] = NAME(rms)(y, s->inner);
        score[at++] = NAME(head)(s, param, y, y[s->inner + 1]);
    }
}

/* From the slope of a score to dy [O]. */
static void NAME(head_back)(const mlstm_shape *s, const REAL *param, const REAL *y, REAL rms,
                            REAL slope, REAL *grad, REAL *dy)
{
    int64_t O = s->inner;
    const REAL *gain = param + mlstm_gain(s), *out = param + mlstm_out(s);
    REAL dot = 0;
    grad[mlstm_out_bias(s)] += slope;
    for (int64_t i = 0; i < O; i++) {
        REAL plain = y[i] / rms, n = gain[i] * plain;
        REAL dn = slope * out[i] * NAME(act_slope)(MLP_SILU, n);
        grad[mlstm_out(s) + i] += slope * NAME(act)(MLP_SILU, n);
        grad[mlstm_gain(s) + i] += dn * plain;
        dy[i] = dn * gain[i];
        dot += dy[i] * plain;
    }
    for (int64_t i = 0; i < O; i++)
        dy[i] = (dy[i] - y[i] / rms * dot / (REAL)O) / rms;
}

/* One read-out's share of the slopes of C, z and its own query; returns <slope of the state,
 * state>, which is 0 but for rounding: y does not change when C and z grow together. */
static void NAME(read_back)(const NAME(memory) * m, const REAL *kept, const REAL *q, REAL *dy,
                            REAL *du)
{
    int64_t O = m->inner;
    const REAL *y = kept + m->n_state, *z = kept + 2 * O * O;
    REAL den = y[O], along = 0, *dq = m->hand, *dz = m->back + 2 * O * O;
    for (int64_t b = 0; b < O; b++) {
        dy[b] /= den;
        along -= dy[b] * y[b];
    }
    for (int64_t a = 0; a < 2 * O; a++) {
        REAL *dc = m->back + a * O, sum = along * z[a];
        dz[a] += q[a] * along;
        VECTOR_SUM(sum) for (int64_t b = 0; b < O; b++)
        {
            sum += kept[a * O + b] * dy[b];
            dc[b] += q[a] * dy[b];
        }
        dq[a] = sum;
    }
    NAME(phi_back)(du, q, dq, O);
}

/* Token t's k, v and gates, then the slopes of the state before it. `along` is <slope of the
 * state, state> behind token t; it gives the slope of log f without the state before it:
 * f <dC, C_(t-1)> = <dC, C_t> - i <dC, k v^T>. Returns that, which is `along` before t. */
static double NAME(forget)(const NAME(memory) * m, int64_t t, double along)
{
    int64_t O = m->inner;
    const REAL *k = m->feature + t * 4 * O + 2 * O, *v = m->pre + t * m->rows + 2 * O;
    REAL in = m->gate[2 * t], keep = m->gate[2 * t + 1], *dz = m->back + 2 * O * O;
    REAL *slope = m->slope + t * m->rows, *dv = slope + 2 * O, *dk = m->hand;
    REAL din = 0;
    for (int64_t a = 0; a < 2 * O; a++) {
        REAL *dc = m->back + a * O, sum = dz[a], w = in * k[a];
        VECTOR_SUM(sum) for (int64_t b = 0; b < O; b++)
        {
            sum += dc[b] * v[b];
            dv[b] += w * dc[b];
            dc[b] *= keep;
        }
        din += sum * k[a];
        dk[a] = in * sum;
        dz[a] *= keep;
    }
    NAME(phi_back)(slope + O, k, dk, O);
    slope[3 * O] = din * in;
    along -= (double)(din * in);
    slope[3 * O + 1] =
        t == 0 ? 0 : (REAL)along * NAME(sigmoid)(-m->pre[t * m->rows + 3 * O + 1]);
    return along;
}

void NAME(mlstm_back)(const mlstm_shape *s, const REAL *param, const REAL *x, int64_t n,
                      const int32_t *read, int64_t n_read, const REAL *slope, REAL *grad,
                      REAL *work)
{
    NAME(memory) m;
    NAME(memory_lay)(&m, s, n, work);
    for (int64_t i = 0; i < n * m.rows; i++)
        m.slope[i] = 0;
    for (int64_t i = 0; i < m.n_state; i++)
        m.back[i] = 0;
    double along = 0; /* each read-out adds nothing to it */
    int64_t at = n_read, last = n_read > 0 ? read[n_read - 1] + s->delay : -1;
    for (int64_t t = last; t >= 0; t--) {
        if (at > 0 && read[at - 1] + s->delay == t) {
            int64_t j = read[--at];
            const REAL *kept = m.read + at * (m.n_state + s->inner + 2), *y = kept + m.n_state;
            REAL *dy = m.hand + 4 * s->inner;
            NAME(head_back)(s, param, y, y[s->inner + 1], slope[at], grad, dy);
            NAME(read_back)(&m, kept, m.feature + j * 4 * s->inner, dy, m.slope + j * m.rows);
        }
        along = NAME(forget)(&m, t, along);
    }
    PRODUCT_TN(grad, m.slope, x, m.rows, s->n_in, n);
    for (int64_t i = 0; i < n * m.rows; i++)
        grad[mlstm_bias(s) + i % m.rows] += m.slope[i];
}

/* ---- gate ----------------------------------------------------------------------------------
 */

/* One query head u of one token: its normed query and key, and the share that the token wins.
 */
static REAL NAME(gate_share)(const gate_shape *s, const REAL *param, int64_t u, const REAL *q,
                             const REAL *k, REAL *weight)
{
    int64_t O = s->inner, g = u / (s->n_head / s->n_kv);
    const REAL *base = param + gate_base(s) + g * s->n_base * O;
    REAL scale = (REAL)1 / SQRT((REAL)O), a = 0, sum = 1;
    for (int64_t i = 0; i < O; i++)
        a += q[i] * k[i];
    a = a * scale + param[gate_logit(s) + u];
    for (int64_t e = 0; e < s->n_base; e++) {
        REAL b = 0;
        for (int64_t i = 0; i < O; i++)
            b += q[i] * base[e * O + i];
        sum += weight[e] = EXP(b * scale - a);
    }
    for (int64_t e = 0; e < s->n_base; e++)
        weight[e] /= sum;
    return (REAL)1 / sum;
}

/* out [O] = u / rms(u) * gain */
static void NAME(gate_norm)(REAL *out, const REAL *u, const REAL *gain, int64_t O)
{
    REAL rms = NAME(rms)(u, O);
    for (int64_t i = 0; i < O; i++)
        out[i] = u[i] / rms * gain[i];
}

void NAME(gate_score)(const gate_shape *s, const REAL *param, const REAL *x, int64_t n,
                      REAL *score, REAL *work)
{
    int64_t O = s->inner, rows = gate_rows(s), R = s->n_head / s->n_kv;
    REAL *q = work + 2 * n * rows, *k = q + O, *weight = q + 4 * O;
    const REAL *bias = param + gate_bias(s), *gain = param + gate_gain(s);
    PRODUCT_NT(work, x, param, n, rows, s->n_in);
    for (int64_t t = 0; t < n; t++) {
        REAL *pre = work + t * rows;
        for (int64_t i = 0; i < s->n_head * O; i++)
            pre[i] += bias[i];
        for (int64_t g = 0; g < s->n_kv; g++) {
            REAL sum = 0;
            NAME(gate_norm)(k, pre + (s->n_head + g) * O, gain + O, O);
            for (int64_t u = g * R; u < (g + 1) * R; u++) {
                NAME(gate_norm)(q, pre + u * O, gain, O);
                sum += NAME(gate_share)(s, param, u, q, k, weight);
            }
            score[t * s->n_kv + g] = sum / (REAL)R;
        }
    }
}

/* From the slope d of a normed vector to du (added) and the gain's. */
static void NAME(gate_norm_back)(REAL *du, const REAL *u, const REAL *gain, const REAL *d,
                                 REAL *gain_slope, int64_t O)
{
    REAL rms = NAME(rms)(u, O), dot = 0;
    for (int64_t i = 0; i < O; i++) {
        gain_slope[i] += d[i] * u[i] / rms;
        dot += d[i] * gain[i] * u[i] / rms;
    }
    for (int64_t i = 0; i < O; i++)
        du[i] += (d[i] * gain[i] - u[i] / rms * dot / (REAL)O) / rms;
}

/* Slopes of one head and token by its share's slope; dk [O] is added to, dq [O] written. With
 * p the share and w_e the bases' shares: dp/da = p (1 - p), dp/da_e = -p w_e. */
static void NAME(gate_share_back)(const gate_shape *s, const REAL *param, int64_t u,
                                  const REAL *q, const REAL *k, const REAL *weight, REAL share,
                                  REAL slope, REAL *grad, REAL *dq, REAL *dk)
{
    int64_t O = s->inner, at = gate_base(s) + u / (s->n_head / s->n_kv) * s->n_base * O;
    REAL scale = (REAL)1 / SQRT((REAL)O), da = slope * share * ((REAL)1 - share);
    grad[gate_logit(s) + u] += da;
    for (int64_t i = 0; i < O; i++) {
        dq[i] = da * scale * k[i];
        dk[i] += da * scale * q[i];
    }
    for (int64_t e = 0; e < s->n_base; e++) {
        REAL db = -slope * share * weight[e] * scale;
        for (int64_t i = 0; i < O; i++) {
            dq[i] += db * param[at + e * O + i];
            grad[at + e * O + i] += db * q[i];
        }
    }
}

void NAME(gate_back)(const gate_shape *s, const REAL *param, const REAL *x, int64_t n,
                     const REAL *slope, REAL *grad, REAL *work)
{
    int64_t O = s->inner, rows = gate_rows(s), R = s->n_head / s->n_kv;
    REAL *q = work + 2 * n * rows, *k = q + O, *dq = q + 2 * O, *dk = q + 3 * O;
    REAL *weight = q + 4 * O, *by_pre = work + n * rows;
    const REAL *gain = param + gate_gain(s);
    REAL *by_gain = grad + gate_gain(s), *by_bias = grad + gate_bias(s);
    for (int64_t i = 0; i < n * rows; i++)
        by_pre[i] = 0;
    for (int64_t t = 0; t < n; t++)
        for (int64_t g = 0; g < s->n_kv; g++) {
            const REAL *pre = work + t * rows, *own = pre + (s->n_head + g) * O;
            REAL *d = by_pre + t * rows, each = slope[t * s->n_kv + g] / (REAL)R;
            NAME(gate_norm)(k, own, gain + O, O);
            for (int64_t i = 0; i < O; i++)
                dk[i] = 0;
            for (int64_t u = g * R; u < (g + 1) * R; u++) {
                NAME(gate_norm)(q, pre + u * O, gain, O);
                REAL share = NAME(gate_share)(s, param, u, q, k, weight);
                NAME(gate_share_back)(s, param, u, q, k, weight, share, each, grad, dq, dk);
                NAME(gate_norm_back)(d + u * O, pre + u * O, gain, dq, by_gain, O);
            }
            NAME(gate_norm_back)(d + (s->n_head + g) * O, own, gain + O, dk, by_gain + O, O);
        }
    for (int64_t i = 0; i < n * s->n_head * O; i++)
        by_bias[i % (s->n_head * O)] +=
            by_pre[i / (s->n_head * O) * rows + i % (s->n_head * O)];
    PRODUCT_TN(grad, by_pre, x, rows, s->n_in, n);
}
